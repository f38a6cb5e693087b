package observability

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/health"
)

// Defaults of percolator.Config, which the rules suit.
const (
	lockTTL   = 10 * time.Second
	retention = time.Hour
)

// judged are the rules about what "percolator check" and the console judge as well, with the
// threshold of package health in the place of %v.
var judged = map[string]struct {
	expr       string
	thresholds []any
}{
	"PercolatorOracleWithoutLeader": {"(sum(percolator_tso_leading) or vector(0)) < %v", []any{health.MostLeaders}},
	"PercolatorOracleTwoLeaders":    {"sum(percolator_tso_leading) > %v", []any{health.MostLeaders}},
	"PercolatorOracleStoreSilent":   {"percolator_tso_store_silence_seconds > %v", seconds(health.StoreSilence)},
	"PercolatorOracleNoSpare":       {"(sum(percolator_tso_ready) or vector(0)) < %v", []any{health.LeastReady}},
	"PercolatorOracleClock":         {"abs(percolator_tso_high_water_ahead_seconds) > %v", seconds(health.ClockTolerance)},
	"PercolatorStuckLocks": {"max(max_over_time(percolator_lock_expired_age_seconds[2m])) > %v or max(max_over_time(percolator_journal_expired_age_seconds[2m])) > %v",
		seconds(health.StrandedAfter(lockTTL, health.StrandedTTLs), health.StrandedAfter(lockTTL, health.StrandedTTLs))},
	"PercolatorNotificationBacklog": {"max(max_over_time(percolator_notifications_oldest_age_seconds[2m])) > %v or max(max_over_time(percolator_journal_notified_age_seconds[2m])) > %v",
		seconds(health.BacklogAge, health.BacklogAge)},
	"PercolatorParkedRows":      {"max(percolator_notifications_parked) > %v", []any{health.MostParked}},
	"PercolatorObserverOverdue": {"max by (percolator_observer) (percolator_observer_overdue) > %v", []any{health.MostOverdue}},
	"PercolatorOverloaded":      {"max by (instance) (percolator_tables_overloaded) > %v", []any{health.MostOverloaded}},
	"PercolatorCorruptCells": {"increase(percolator_scan_corrupt_total[30m]) > %v or increase(percolator_journal_corrupt_total[30m]) > %v",
		[]any{health.MostCorrupt, health.MostCorrupt}},
	"PercolatorJournalBehind": {"max(percolator_journal_oldest_age_seconds) > %v", seconds(health.JournalAge)},
	"PercolatorCollectionLag": {"min(percolator_collection_lag_seconds) > %v", seconds(health.CollectionLag(retention))},
}

func seconds(of ...time.Duration) (out []any) {
	for _, d := range of {
		out = append(out, d.Seconds())
	}
	return out
}

// alone are the rules about what only metrics tell, and no look at an instance: rates, quantiles,
// and what a process knows of itself. A new rule stands here or in judged.
var alone = regexp.MustCompile(`^Percolator(?:OracleWindowLow|OracleLeadersChange|OracleSlow|ConflictRate|OutcomeUnknown|LockWaits|PhaseTwoFailing|PhaseTwoQueueFull|` +
	`MetaStale|NoWorker|ObserverFailing|LargeRows|JournalFailing|AdoptionFailing|JournalMissed|CollectionFailing)$`)

// An alert, "percolator check" and the console agree about what is in order.
func TestRulesHaveTheThresholdsOfHealth(t *testing.T) {
	t.Parallel()
	left := len(judged)
	for _, r := range readRules(t) {
		want, ok := judged[r.Alert]
		switch {
		case ok == alone.MatchString(r.Alert):
			t.Errorf("%s is to be judged by package health, or alone", r.Alert)
		case !ok:
		case r.Expr != fmt.Sprintf(want.expr, want.thresholds...):
			t.Errorf("%s: %s, and package health has %s", r.Alert, r.Expr, fmt.Sprintf(want.expr, want.thresholds...))
		}
		if ok {
			left--
		}
	}
	if left != 0 {
		t.Errorf("%d rules are missing", left)
	}
}
