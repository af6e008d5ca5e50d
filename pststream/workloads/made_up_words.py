"""Make a vocabulary for random texts: English words at the frequent ranks, pronounceable made-up words after them."""

from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from pststream.workloads.power_law import PowerLaw

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
