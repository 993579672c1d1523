"""Looking after a repository: auditing what it holds, and expiring what nobody needs."""

from streams_recovery.upkeep.auditing import ALL, AuditTicket, conclude_audit, plan_audit, plan_reading, raise_unless_good
from streams_recovery.upkeep.expiring import ExpirePlan, ExpireReport, expire, mark, plan_expiry
from streams_recovery.upkeep.text import expiry_text
from streams_recovery.upkeep.undeleting import UndeletePlan, plan_undelete, undelete

__all__ = [
    "ALL",
    "AuditTicket",
    "ExpirePlan",
    "ExpireReport",
    "UndeletePlan",
    "conclude_audit",
    "expire",
    "expiry_text",
    "mark",
    "plan_audit",
    "plan_expiry",
    "plan_reading",
    "plan_undelete",
    "raise_unless_good",
    "undelete",
]
