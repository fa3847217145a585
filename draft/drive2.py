from problem1.shared.grid import run_grids
from problem2 import sweep
from problem2.studies import trainings
import pandas as pd
if __name__ == "__main__":
    folder = sweep.RESULTS / "grid"
    develop, examine, certify, hard = sweep.grids(trainings())
    (h,) = run_grids([hard], folder)
    (a,) = run_grids([sweep.confirmations(h)], folder)
    h = pd.concat([h, a], ignore_index=True)
    run_grids([sweep.farthest(h)], folder)
    run_grids([certify], folder)
    run_grids([develop], folder)
    run_grids([examine], folder)
    print("ALL DONE")
