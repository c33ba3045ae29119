"""Which words of captions are nouns, and how people ask for what they name.

    captions --noun_like--> dog, frisbee --with_article--> "a dog", "a frisbee"

No tagger is at hand. A word counts as a noun when it often follows an article or a number
and mostly stands before a function word or at the end.
"""

from collections import Counter
from collections.abc import Sequence

_SOME = frozenset(("broccoli", "scissors", "skis"))
"""Objects that nobody calls "a ..."."""
_ARTICLES = frozenset(
    "a an the his her their its some one two three four five several many".split()
)
FUNCTION = frozenset(
    "a an the this that these those his her its their some any each every another other "
    "of in on at by to from with without into onto over under near next behind beside "
    "between through across around along up down off out as for above below inside against "
    "during about "
    "and or but while is are was were be being been has have had it he she they them there "
    "who which what where when very not".split()
)
PLACES = frozenset(
    "top side back front middle edge corner background outside close full way time day others "
    "view photo picture image photograph shot closeup scene".split()
)
"""Words that say where something is, or that there is a picture; no phrase has one."""
_AMOUNTS = frozenset("group couple bunch lot set pair piece pieces row number".split())
"""Words that no phrase ends in."""
OFTEN = 5
"""A word seen less is not called a noun."""
_AFTER_ARTICLE, _BEFORE_FUNCTION = 0.1, 0.5


def noun_like(captions: Sequence[Sequence[str]], often: int = OFTEN) -> set[str]:
    """Words that stand where nouns stand; see the first lines."""
    total: Counter[str] = Counter()
    after: Counter[str] = Counter()
    before: Counter[str] = Counter()
    for words in captions:
        for last, word, following in zip(["", *words], words, [*words[1:], "."], strict=False):
            total[word] += 1
            after[word] += last in _ARTICLES
            before[word] += _ends_a_noun(following)
    return {
        word
        for word, count in total.items()
        if count >= often
        and after[word] >= _AFTER_ARTICLE * count
        and before[word] >= _BEFORE_FUNCTION * count
        and is_content(word)
        and not word.endswith("ing")
        and word not in PLACES | _AMOUNTS | _ARTICLES
    }


def _ends_a_noun(following: str) -> bool:
    return following in FUNCTION or not following.isalpha() or following.endswith("ing")


def is_content(word: str) -> bool:
    """Whether a word is no function word."""
    return word.isalpha() and word not in FUNCTION


def stem(word: str) -> str:
    """Without the s of the plural; "bus", "grass" and "tennis" keep theirs."""
    plural = word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return word[:-1] if plural and len(word) > 3 else word


def with_article(name: str) -> str:
    """A name as people say it: "a dog", "an apple", "some broccoli"."""
    if name in _SOME:
        return f"some {name}"
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
