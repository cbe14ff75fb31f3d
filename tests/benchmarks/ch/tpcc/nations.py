"""The 62 nations of CH-benchmark, each with the letter or digit that is its number, and their regions."""

from collections.abc import Mapping
from dataclasses import dataclass

AFRICA, AMERICA, ASIA, AUSTRALIA, EUROPE = range(1, 6)
REGIONS: Mapping[int, str] = {
    AFRICA: "Africa",
    AMERICA: "America",
    ASIA: "Asia",
    AUSTRALIA: "Australia",
    EUROPE: "Europe",
}


@dataclass(frozen=True, slots=True)
class NationRow:
    """Letter or digit at the beginning of the states of its customers, its name, and its region."""

    letter: str
    name: str
    region: int


_NAMES: Mapping[int, str] = {
    AFRICA: "C Cameroon, K Kenya, R Rwanda, T Togo, Z Zimbabwe, E Egypt, G Ghana, c Morocco, i South Africa, "
    "p Zambia, z Botswana, m Senegal",
    AMERICA: "D Ecuador, M Mexico, U United States, A Argentina, B Bolivia, 0 Canada, 1 Dominican Republic, H Haiti, "
    "f Peru, g Nicaragua, l Venezuela, v Brazil, y Belize",
    ASIA: "J Japan, V Vietnam, S Singapore, N Cambodia, I India, a Kazakhstan, j Thailand, o Laos, r China, O Oman, "
    "Q Qatar, Y Yemen",
    AUSTRALIA: "2 Australia, 3 Jamaica, s Papua New Guinea, t East Timor",
    EUROPE: "4 Belgium, 5 Denmark, F France, 6 Germany, 7 Hungary, 8 Italy, L Lithuania, 9 Netherlands, P Portugal, "
    "W Serbia, X Finland, b Luxembourg, d Norway, e Poland, h Romania, k United Kingdom, n Austria, q Switzerland, "
    "u Bulgaria, w Albania, x Andorra",
}


def _nations() -> list[NationRow]:
    found = []
    for region, names in _NAMES.items():
        for named in names.split(", "):
            letter, _, name = named.partition(" ")
            found.append(NationRow(letter, name, region))
    return sorted(found, key=lambda nation: nation.letter)


NATIONS = _nations()
