// Package health says whether what was measured of an instance is in order. It holds each threshold
// once: "percolator check" and the console judge by it, and a test compares the rules of
// docs/observability/alerts.yaml with it.
package health

import (
	"fmt"
	"slices"
	"time"
)

// Level is how good or bad something is.
type Level string

// The levels, the best first.
const (
	OK         Level = "ok"
	NotChecked Level = "not checked"
	Warning    Level = "warning"
	Failed     Level = "failed" // data does not move, or cannot be trusted
)

var levels = []Level{OK, NotChecked, Warning, Failed}

// Worst is the worst of some levels; OK for none.
func Worst(of ...Level) Level {
	return slices.MaxFunc(append(of, OK), func(a, b Level) int { return slices.Index(levels, a) - slices.Index(levels, b) })
}

// Finding is one thing that was seen.
type Finding struct {
	Level  Level  `json:"level"`
	Saw    string `json:"saw"`
	Remedy string `json:"remedy,omitempty"` // a command, or where to read on

	Advice  string `json:"-"` // what to do, for who has no command line at hand
	Runbook string `json:"-"` // an anchor of docs/RUNBOOK.md
	Unable  bool   `json:"-"` // it should have been checked, and could not be
}

// Found is a finding of a level with its remedy.
func Found(level Level, remedy, format string, args ...any) Finding {
	return Finding{Level: level, Saw: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Fine is what was seen where all is well.
func Fine(format string, args ...any) []Finding {
	return []Finding{Found(OK, "", format, args...)}
}

// ElseFine is what was found, or what was seen if that is nothing.
func ElseFine(out []Finding, format string, args ...any) []Finding {
	if len(out) == 0 {
		return Fine(format, args...)
	}
	return out
}

// Unchecked is what was not looked at.
func Unchecked(format string, args ...any) []Finding {
	return []Finding{Found(NotChecked, "", format, args...)}
}

// Cannot is the finding where an error keeps from looking.
func Cannot(text string) []Finding {
	return []Finding{{Level: NotChecked, Saw: text, Unable: true}}
}

// counted is a number of things.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

// The thresholds. Each suits the defaults of Config and schema; those of the alert rules that
// depend on an instance are marked FIT there.
const (
	// MostLeaders of the oracle: one fenced record rules a second one out.
	MostLeaders = 1
	// LeastReady servers of the oracle: one leads, one takes over.
	LeastReady = 2
	// StoreSilence is how long the store of the oracle's record may be silent. Servers ask it several
	// times a second, and do without an answer for one lease, 3 s.
	StoreSilence = 2 * time.Second
	// ClockTolerance is how far timestamps may be from a clock: the oracle's high-water mark is ahead
	// by seconds only.
	ClockTolerance = time.Minute

	// StrandedTTLs is how many times its TTL a lock may stand. Once its time is up any reader resolves
	// it, and a client or worker whose entry names it: first after 5 s, then ever more rarely.
	StrandedTTLs = 6
	// AdoptionAge is how old an unfinished entry of a dead client may be: a worker adopts its stream
	// within seconds, and then waits for observers.
	AdoptionAge = 10 * time.Minute
	// JournalAge is how old any unfinished entry may be, whoever has to finish it. Observers may
	// snooze for long.
	JournalAge = time.Hour

	// BacklogAge is how long a change may wait for its observers. What a full queue delays, or the
	// restart of all workers, takes minutes.
	BacklogAge = 5 * time.Minute
	// MostParked: a parked cell stays until somebody retries or drops it.
	MostParked = 0

	// MostOverdue: a run that ignores its timeout holds a slot of its worker for as long as it likes.
	MostOverdue = 0
	// MostOverloaded: a client waits, and slows its background work down, as soon as it is asked to.
	MostOverloaded = 0

	// CollectionSlow is how many times the retention versions may be old: a cycle begins every twelfth
	// of it, and takes the drain and its pass.
	CollectionSlow = 2
	// CollectionStuck is the same for collection that does not recover by itself.
	CollectionStuck = 10
	// MostCorrupt cells: something else has written to the tables.
	MostCorrupt = 0
)

// CollectionLag is for how much longer than the retention versions may be kept.
func CollectionLag(retention time.Duration) time.Duration { return (CollectionSlow - 1) * retention }

// StrandedAfter is for how long the time of a lock may have been up if it may stand for so many
// TTLs.
func StrandedAfter(ttl time.Duration, ttls int) time.Duration { return time.Duration(ttls-1) * ttl }
