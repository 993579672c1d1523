"""Looking after a repository: checking its contents, and expiring files that no savepoint needs."""

from streams_recovery.operations.maintenance.announce import announce, deletion_outlook, scheduled, withdraw
from streams_recovery.operations.maintenance.check import ALL, CheckTicket, conclude_check, plan_check, plan_reading, raise_unless_good
from streams_recovery.operations.maintenance.cut_again import prove_cut
from streams_recovery.operations.maintenance.expire import ExpirePlan, ExpireReport, expire, expiry_text, pin, plan_expiry
from streams_recovery.operations.maintenance.mirror import (
    MirrorReport,
    fill_mirror,
    move,
    plan_mirror,
    raise_unless_mirrored,
)
from streams_recovery.operations.maintenance.seal import adopt, plan_adoption
from streams_recovery.operations.maintenance.undelete import UndeletePlan, plan_undelete, undelete
