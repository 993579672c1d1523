"""Looking after a repository: auditing what it holds."""

from streams_recovery.upkeep.auditing import ALL, AuditTicket, conclude_audit, plan_audit, raise_unless_good

__all__ = ["ALL", "AuditTicket", "conclude_audit", "plan_audit", "raise_unless_good"]
