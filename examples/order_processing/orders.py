"""The example's world as pure functions: order number i of a seed is always the same order."""

from __future__ import annotations

from dataclasses import dataclass

REGIONS = ("north", "south", "east", "west", "centre")
_MULTIPLIER = 6_364_136_223_846_793_005
_MASK = (1 << 64) - 1


def mixed(seed: int, number: int) -> int:
    """64 bits that look random and depend on both numbers (splitmix64)."""
    z = (seed * _MULTIPLIER + number * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Sizes and the clock. Order i happens at ``start_ms + i * step_ms``; every customer orders once in each ``customers`` orders."""

    seed: int
    customers: int
    products: int
    start_ms: int
    step_ms: int

    def customer(self, number: int) -> str:
        """Who places order ``number``. Each round of all customers has another order of its own."""
        turn, place = divmod(number, self.customers)
        return f"c-{(place * 7919 + mixed(self.seed, turn)) % self.customers}"

    def timestamp(self, number: int) -> int:
        """Event time of an order, milliseconds."""
        return self.start_ms + number * self.step_ms

    def order(self, number: int) -> dict[str, object]:
        """The value of order ``number``."""
        bits = mixed(self.seed, number)
        quantity = 1 + bits % 5
        return {
            "order": number,
            "product": f"p-{(bits >> 8) % self.products}",
            "quantity": quantity,
            "cents": quantity * (100 + (bits >> 32) % 9_900),
        }

    def region(self, customer: int) -> str:
        """Where a customer lives."""
        return REGIONS[mixed(self.seed + 1, customer) % len(REGIONS)]

    def product(self, number: int) -> dict[str, object]:
        """The inventory entry of a product."""
        return {"name": f"product {number}", "stock": mixed(self.seed + 2, number) % 1_000}
