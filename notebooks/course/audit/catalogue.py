"""Every kind of finding: how much it weighs, what it means, how to check it, how to mend it."""

from typing import NamedTuple

from .finding import Finding


class Kind(NamedTuple):
    weight: int  # 1: a result means something else than it seems; 2: it contradicts itself or is missing; 3: the rest
    means: str
    check: str
    mend: str


KINDS = {
    # the adder and its heads
    "share of sums": Kind(
        1,
        "A decoder that cannot write the first digit gets only those sums right whose answer begins with the "
        "digit it was started with; if digit 0 shares the id of PAD, only those of them without a further 0. "
        "That the number equals the share is what is certain or not; that this is the reason is likely.",
        "Compare the first digits of answers and targets; list which answers are right.",
        "Begin the decoder's input with a BOS of its own, learn all four digits, and give PAD an id that no digit has.",
    ),
    "far from the training log": Kind(
        1,
        "Two scores of one model on items of one kind cannot be so far apart: they were not computed in the "
        "same way, with the same weights, or on such items. Teacher-forced scores are higher than free-"
        "running ones, and with the first digit handed over they do not see that it is wrong.",
        "Score the saved weights in both ways on the same items, in eval mode.",
        "Analyse the score that the model really reaches, free-running from BOS.",
    ),
    "baseline near 0": Kind(
        1,
        "Without any head removed almost no answer counts as right, so no drop can be seen. If the training "
        "says otherwise, the comparison itself is at fault: answers shifted by one position, BOS or padding "
        "compared as well, or a decoder that is started wrongly.",
        "Print five answers beside the right ones, token by token.",
        "Compare whole answers of the same positions, decoded from BOS.",
    ),
    "teacher forcing": Kind(
        2,
        "With teacher forcing the model is handed the right digits before each digit: that is not what it "
        "answers by itself.",
        "Decode from BOS, feeding back what the model wrote.",
        "Report the free-running accuracy, or both, named.",
    ),
    "decoding not stated": Kind(
        3,
        "The file does not say how answers were decoded. With teacher forcing the right digits before each "
        "digit are handed over, the first one among them if there is no BOS, and the effect of a head on "
        "later digits is hidden.",
        "Look for the loop that feeds the model's own digits back.",
        "Score heads free-running from BOS, and write so in the file.",
    ),
    "no baseline": Kind(
        3,
        "A drop says little without what it is a drop from, and nobody can see how answers were scored.",
        "Run the same evaluation with all heads.",
        "Write the baseline, the number of items and the decoding beside the numbers of the heads.",
    ),
    "impossible numbers": Kind(
        2,
        "An accuracy lies between 0 and 1, it cannot fall by more than it was, and a cross-entropy is never "
        "negative: numbers of different units, baselines or sets have been mixed.",
        "Recompute one of them by hand from the predictions.",
        "Take all of them from one evaluation, in one unit.",
    ),
    "loss as importance": Kind(
        2,
        "A change of the loss is no change of the accuracy: it also grows where every answer stays right, and "
        "depends on the items it is taken on. The assignment asks for accuracy.",
        "Look at what the evaluation returns, and on how many items.",
        "Give the accuracy with each head removed, on the whole test set.",
    ),
    "better without a head": Kind(
        3,
        "Possible, but rare in an adder that works: the baseline may belong to other items, other weights, or "
        "a model not trained to the end.",
        "Score baseline and heads in one run, on the same items, in eval mode.",
        "Use one evaluation for both; give the interval of the difference.",
    ),
    "numbers that do not add up": Kind(
        2,
        "They come from different runs or baselines, or one of them is something else than it is called.",
        "Recompute drop = baseline - accuracy.",
        "Write one of the two and compute the other from it.",
    ),
    "nothing removed": Kind(
        2,
        "No head matters at all, which no working adder shows: the removal probably has no effect.",
        "Remove all heads at once: the accuracy must fall to about 0.",
        "Zero a head's output before the output projection, and test that outputs change.",
    ),
    "few items": Kind(
        2,
        "Shares of a single item, or of few, have few values. Which head is important then depends on the "
        "items chosen.",
        "Look at how many items the evaluation reads.",
        "Use all 2,000 test items.",
    ),
    "no whole number of items": Kind(
        3,
        "It is no share of the assignment's items: of other items, of digits, a mean over seeds, or a mean "
        "over batches of which the last is smaller and counts as much as the others.",
        "Multiply by the number of items.",
        "Count right answers over all batches and divide once; write the number of items into the file.",
    ),
    "heads missing": Kind(
        2,
        "The assignment asks for all 24: 8 in the encoder, 8 in the decoder's self-attention, 8 in its cross-"
        "attention.",
        "Count the rows.",
        "Give one number for each of Encoder, Decoder Self and Decoder Cross, L0 and L1, H0 to H3.",
    ),
    "ranking out of order": Kind(
        2,
        "Ranks and numbers do not belong together: they were sorted by something else, as text, or edited by hand.",
        "Sort the numbers and compare.",
        "Sort by the number that is shown.",
    ),
    "attention above 1": Kind(
        2,
        "The weights with which a query attends add up to 1, so a mean share cannot be larger: they were "
        "added up over queries, layers or items.",
        "Divide by the number of queries.",
        "Take the mean over queries; say which layer and which stack.",
    ),
    "negative attention": Kind(
        3,
        "Attention weights are not negative; if this is a difference or a correlation, the file should say so.",
        "Look at how it is computed.",
        "Name the measure.",
    ),
    "no column alignment": Kind(
        3,
        "Cross heads of adders that work attend to the column of the digit they write. Measured at the digit "
        "they read, the share is near 0.",
        "Shift the columns by one and measure again.",
        "Count the column of the digit that is written at a position, not of the one that is read.",
    ),
    "small vocabulary": Kind(
        3,
        "BOS or PAD is missing, or shares its id with another token. Without BOS nobody asks the decoder for "
        "the first digit; a digit that shares PAD's id is ignored by the loss.",
        "Print the ids of BOS, PAD and 0.",
        "Give BOS and PAD ids after those of the digits and +.",
    ),
    # accuracies by length
    "class share": Kind(
        1,
        "One answer for every item, whatever it holds, has this accuracy: it describes the set, not the "
        "model, and 0.514 is then no better than 0.486.",
        "Count how often each class is predicted at each length.",
        "Report balanced accuracy or the share of each class predicted beside the accuracy; if the training "
        "died, train again.",
    ),
    "plain positions extrapolate": Kind(
        3,
        "Plain sinusoidal positions end in one answer for every item there in nearly every training we know. "
        "Are positions stretched to the trained range, are the sets easier (fully shuffled, balanced), or "
        "does padding show through?",
        "Evaluate the saved weights on the assignment's sets and on sorted sequences with one adjacent pair swapped.",
        "Name the encoding by what it does, for instance interpolated; use the assignment's sets.",
    ),
    "order without positions": Kind(
        2,
        "An encoder without positions and without a causal mask sees a bag of values, in which order does not "
        "show: it cannot be better than chance.",
        "Shuffle a sequence: the output must stay the same.",
        "Find where order enters (a mask, padding, recurrent parts), and name it.",
    ),
    "the same numbers": Kind(
        2,
        "Two models that work do not agree to the last item by chance: both answer the same class to every "
        "item, or one model was evaluated twice, or the encoding has no effect.",
        "Compare the predictions of both item by item, and the weights.",
        "Evaluate each model's own weights; count how often each class is predicted.",
    ),
    "opposite numbers": Kind(
        2,
        "Where one is right, as many items are wrong in the other: the likely reason is that both answer one "
        "class to every item, and not the same one.",
        "Compare the predictions of both item by item.",
        "Count how often each class is predicted before comparing encodings.",
    ),
    "lengths missing": Kind(
        3,
        "The assignment evaluates at 8, 12, 16 and, beyond training, 32, 64, 128, 256. Without the trained "
        "lengths nobody can see what a model knew before it failed.",
        "Compare the lengths in the file with these.",
        "Evaluate at these lengths, too.",
    ),
    "encodings missing": Kind(
        3,
        "The assignment compares sinusoidal, learned and none.",
        "Compare the names in the file.",
        "Evaluate all three.",
    ),
    # trainings
    "dead training": Kind(
        1,
        "The model says the same to every item: the training died. What it says at other lengths says nothing "
        "about the encoding.",
        "Count how often each class is predicted.",
        "Warm up, lower the rate (1e-3 to 2e-4), or put the norms before the blocks; watch the training "
        "accuracy of the first epochs.",
    ),
    "never learned": Kind(
        1,
        "The model did not learn the task that it was trained on, so what was measured on it afterwards says "
        "nothing about encodings or heads.",
        "Look at accuracy and loss of training and validation over the epochs.",
        "Warm up, lower the rate (1e-3 to 2e-4), or put the norms before the blocks; train longer.",
    ),
    "not trained to the end": Kind(
        3,
        "This task can be learned to the last sum. Heads of an adder that is wrong this often show how it "
        "fails as much as how it adds.",
        "Do the curves still rise or jump at the end?",
        "Train longer, with a rate that warms up and decays, and analyse heads then.",
    ),
    "validation far from test": Kind(
        2,
        "Both sets are of one kind, so one of the scores was computed on other items, with other weights, or "
        "not in eval mode.",
        "Score the same weights on both sets with one function.",
        "Use one function, in eval mode, for both.",
    ),
    "the same training twice": Kind(
        1,
        "Two trainings with different encodings cannot agree so: it is one training under two names, or the "
        "encoding has no effect.",
        "Compare the weights, and the outputs for one input.",
        "Train each encoding by itself, and check that it changes the output.",
    ),
    "no number": Kind(
        1,
        "It is no result: a division by 0, a training that diverged, or an empty set.",
        "Find the first step at which it appears.",
        "Lower the rate or clip gradients if it is a loss; else guard the division.",
    ),
    # files
    "no results": Kind(
        1,
        "There is nothing to audit.",
        "Is it the right folder?",
        "Hand in the JSON or CSV files with accuracies, heads and training logs.",
    ),
    "unreadable": Kind(
        2,
        "What it holds could not be audited.",
        "Open it, at the place named.",
        "Write it again, with a library that writes JSON or CSV in UTF-8.",
    ),
    "damaged": Kind(
        2,
        "Further findings about it rest on what could be read.",
        "Open it at the place named.",
        "Write it again, with a library that writes JSON or CSV.",
    ),
    "unread": Kind(
        2,
        "The files before them took all the time and room there is.",
        "Is this the folder of one hand-in?",
        "Audit the folder of the results alone.",
    ),
    "other items": Kind(
        1,
        "Their SHA-256 is another one, so results on them cannot be compared with anybody else's.",
        "Compare the first item: the assignment's first test sum is 663 + 497.",
        "Draw the sets with the assignment's seeds, in its order.",
    ),
    "deliverables missing": Kind(
        3,
        "Under these names the assignment asks for them.",
        "List the folder.",
        "Write them, or rename what is there.",
    ),
}


def finding(kind: str, certainty: str, file: str, says: str, more: str = "", weight: int = 0) -> Finding:
    """`more` is added to what this kind means; `weight` replaces its weight."""
    words = KINDS[kind]
    means = f"{words.means} {more}".strip()
    return Finding(kind, certainty, weight or words.weight, file, says, means, words.check, words.mend)
