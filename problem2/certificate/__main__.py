from problem2.certificate.command import main

main()
