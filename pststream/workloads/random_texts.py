"""Make a vocabulary for random texts, and draw their terms by the Zipf-Mandelbrot law, some of them local topics."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from pststream.base.arrays import hash_integers, hash_to_unit


@dataclass(frozen=True)
class PowerLaw:
    """Rank r (from 0) of `size` has a probability in proportion to 1 / (r + 1 + shift) ** exponent.

    A greater `shift` flattens the head: the most frequent term is then less frequent.
    """

    size: int
    exponent: float = 1.0
    shift: float = 10.0

    def ranks(self, unit: np.ndarray) -> np.ndarray:
        """Return the rank at each position in [0, 1): int32, same shape."""
        ranks = np.searchsorted(_cumulative(self.size, self.exponent, self.shift), unit, side="right")
        return np.minimum(ranks, self.size - 1).astype(np.int32)


@lru_cache(maxsize=8)
def _cumulative(size: int, exponent: float, shift: float) -> np.ndarray:
    """Return the cumulative probabilities of a law: float64[size], the last is 1; shared and read-only."""
    weight = (np.arange(1, size + 1, dtype=np.float64) + shift) ** -exponent
    total = np.cumsum(weight)
    total /= total[-1]
    total.setflags(write=False)
    return total


ORDINARY = tuple(
    """
    today good new love time day night people city home work street free great happy morning weekend friends
    coffee food music rain traffic live open best big little old long first last next early late tonight tomorrow
    party show game team win run walk drive road bridge river park garden beach lake hill mountain forest sky
    sun cloud wind storm snow ice fog heat cold warm wet dry summer winter spring autumn monday friday sunday
    breakfast lunch dinner brunch tea beer wine pizza burger sushi taco curry noodle soup salad bread cake
    chocolate cheese fish chicken rice pasta vegan kitchen restaurant cafe bakery bar pub market shop store mall
    sale cheap price discount deal ticket offer gift book library school college class teacher student exam
    course lesson study job office meeting boss hire career interview salary project team start company bank
    money tax rent house flat room door window roof floor garden move paint build repair tool light power water
    gas fire smoke police ambulance hospital doctor nurse dentist pharmacy health flu vaccine fever sleep dream
    gym yoga football soccer tennis basketball baseball hockey cricket rugby swim bike cycling marathon race
    train bus tram metro subway station platform delay cancelled strike airport flight plane ferry boat ship
    harbour port taxi parking car truck motorbike scooter crash accident detour roadworks closed lane speed
    jazz rock blues opera concert band guitar piano violin drums choir dance ballet theatre film movie cinema
    series actor festival parade carnival museum gallery art photo camera picture paint sculpture exhibition
    history castle church temple mosque cathedral tower square statue palace monument ruin island valley desert
    volcano glacier waterfall aurora sunrise sunset moon star eclipse meteor comet tide wave surf sail dive
    fishing camping hiking climbing skiing skating kayak trail map compass tent picnic barbecue campfire
    dog cat bird horse cow sheep goat pig duck owl eagle whale dolphin seal turtle shark bear wolf fox deer
    rabbit bee butterfly spider flower rose tulip tree oak pine palm grass leaf seed fruit apple orange lemon
    banana grape berry cherry peach mango melon tomato potato carrot onion garlic pepper salt sugar honey
    baby child kid mother father sister brother family wedding birthday holiday vacation trip travel hotel
    hostel beach suitcase passport border visa tourist guide tour souvenir postcard phone laptop computer
    internet wifi software code data robot battery charger screen keyboard game puzzle chess poker lottery
    news weather forecast report warning alert flood earthquake wildfire hurricane tornado landslide evacuation
    shelter rescue volunteer charity donate blood protest election vote mayor council court law lawyer crime
    theft burglary stolen lost found missing reward wallet keys bag umbrella jacket coat shoes dress shirt hat
    jewellery watch ring necklace vintage antique auction flea handmade craft pottery knitting sewing fashion
    design beauty hair barber salon massage spa sauna pool quiet loud noisy crowded empty clean dirty broken
    fixed lucky tired hungry thirsty excited proud bored lonely brave curious gentle strange secret famous local
    organic fresh sweet sour spicy hot frozen roasted grilled baked smoked homemade street corner alley avenue
    """.split()
)
"""Ordinary words, roughly in descending frequency; repeats are dropped when a vocabulary is made."""

_ONSETS = "b d f g h j k l m n p r s t v z br dr kr st tr".split()
_VOWELS = "a e i o u".split()
_ENDINGS = "l n r s t x".split()
_SYLLABLES = tuple(onset + vowel for onset in _ONSETS for vowel in _VOWELS)
_LEAP = 104_729
"""A prime that is coprime to the number of made-up words: words of neighbouring ranks look different."""

MAX_WORDS = len(_SYLLABLES) ** 3


@dataclass(frozen=True)
class Vocabulary:
    """Words by rank, the most frequent first, and the law of their frequencies."""

    words: pa.Array
    law: PowerLaw


@lru_cache(maxsize=4)
def make_vocabulary(size: int = 50_000, shift: float = 15.0) -> Vocabulary:
    """Make a vocabulary of `size` words under the Zipf-Mandelbrot law.

    Raises ValueError if `size` is not from 1 to MAX_WORDS.
    """
    if not 1 <= size <= MAX_WORDS:
        raise ValueError(f"a vocabulary has 1 to {MAX_WORDS:,} words, not {size:,}")
    words = list(dict.fromkeys(ORDINARY))[:size]
    words += [made_up_word(number) for number in range(size - len(words))]
    return Vocabulary(pa.array(words, pa.string()), PowerLaw(size, shift=shift))


def made_up_word(number: int) -> str:
    """Return the made-up word of a number in [0, MAX_WORDS): distinct for each number, and never an ordinary word."""
    rest = (number * _LEAP) % MAX_WORDS
    rest, first = divmod(rest, len(_SYLLABLES))
    third, second = divmod(rest, len(_SYLLABLES))
    ending = _ENDINGS[number % len(_ENDINGS)]
    return _SYLLABLES[first] + _SYLLABLES[second] + _SYLLABLES[third] + ending


AREA_DEGREES = 1.5
TOPICS = 24
"""Number of topics of an area."""

_EVERYWHERE = 50
"""Number of the most frequent terms, which are not topics."""

_FAVOUR = PowerLaw(TOPICS, exponent=1.0, shift=2.0)


def area_of(lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """Return the area of each point, a square of AREA_DEGREES: int64."""
    across = int(360 / AREA_DEGREES)
    column = np.floor((np.asarray(lon) + 180.0) / AREA_DEGREES).astype(np.int64) % across
    row = np.floor((np.asarray(lat) + 90.0) / AREA_DEGREES).astype(np.int64)
    return row * across + column


def topic_terms(areas: np.ndarray, unit: np.ndarray, law: PowerLaw, seed: int) -> np.ndarray:
    """Return a topic term of each area, chosen by `unit` in [0, 1): int32 ranks of `law`.

    The topics of an area depend on the area and the seed alone. The most frequent terms are not topics; beyond them the
    ranks are spread evenly over the logarithm, so a topic may be a common word or a rare one.
    """
    slot = _FAVOUR.ranks(unit).astype(np.int64)
    key = hash_integers(areas, seed).view(np.int64) + slot
    first = min(_EVERYWHERE, law.size // 10) + 1.0
    rank = first * np.exp(hash_to_unit(key, seed + 1) * np.log(law.size / first)) - 1.0
    return np.minimum(rank, law.size - 1).astype(np.int32)


def draw_terms(rng: np.random.Generator, areas: np.ndarray, law: PowerLaw, seed: int, local_share: float) -> np.ndarray:
    """Draw one term for each entry of `areas`: int32 ranks of `law`; a share of them are topics of the area."""
    terms = law.ranks(rng.random(len(areas)))
    local = np.flatnonzero(rng.random(len(areas)) < local_share)
    terms[local] = topic_terms(areas[local], rng.random(len(local)), law, seed)
    return terms
