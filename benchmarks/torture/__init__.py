"""What Avow promises of its files and its server, each with a proof that anyone can run.

    scripts/torture --list

One module is one promise, and the folder is the registry. A module has

    PROMISE     one sentence
    PROOF       what is done to prove it
    WANTED      how many tries the long form has
    BATCH       how many of them one process makes
    IN_MEMORY   (optional) True: files lie in memory, as thousands of syncs prove nothing more
    prepare     (optional) make in a folder what all batches share
    batch       do tries first … first + count - 1; the number of a try decides all it draws

A file whose name begins with `_` is shared by promises.
"""
