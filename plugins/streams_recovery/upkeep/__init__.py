"""Looking after a repository: auditing what it holds, and expiring what nobody needs."""

from streams_recovery.upkeep.auditing import ALL, AuditTicket, conclude_audit, plan_audit, raise_unless_good
from streams_recovery.upkeep.expiring import ExpirePlan, ExpireReport, expire, mark, plan_expiry
from streams_recovery.upkeep.text import expiry_text

__all__ = [
    "ALL",
    "AuditTicket",
    "ExpirePlan",
    "ExpireReport",
    "conclude_audit",
    "expire",
    "expiry_text",
    "mark",
    "plan_audit",
    "plan_expiry",
    "raise_unless_good",
]
