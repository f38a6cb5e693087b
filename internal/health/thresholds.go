package health

import "time"

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
