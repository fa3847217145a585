from problem1.program.command import main

main()
