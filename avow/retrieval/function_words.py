"""English words that say how others belong together, and nothing of a picture by themselves."""

FUNCTION_WORDS = frozenset(
    "a an the this that these those my your his her its our their some any each every another "
    "other others all both either neither one ones several many much more most few little lot "
    "lots of in on at by to from with without into onto over under near next behind beside "
    "between through across around along up down off out as for above below inside outside "
    "against during about after before until upon toward towards within among away like than "
    "and or nor but so if while because though although when where what which who whom whose "
    "how why is are was were be being been am has have had having do does did doing done can "
    "could will would shall should may might must it he she they them him we us you i me "
    "himself herself itself themselves there here not no very too also just only then now "
    "again yes ok please show find give look looking search want need photo photos picture "
    "pictures image images photograph photographs pic pics two three four five six seven "
    "eight nine ten".split()
)
"""Small numbers and the words around a picture ("a photo of", "show me") are among them."""

CONTRACTIONS = frozenset(
    "isn aren wasn weren don doesn didn can couldn won wouldn shouldn hasn haven hadn ain "
    "mustn needn".split()
)
"""What stands before "'t"."""
