package health

import (
	"time"

	"github.com/gopercolator/percolator/internal/text"
)

// Work that transactions leave: locks, entries of the journal, notifications, letters.

// StrandedLocks is the finding of n locks that have stood for more than so many times their TTL
// though they can be resolved.
func StrandedLocks(n, ttls int, oldest time.Duration) Finding {
	return Finding{Level: Warning, Remedy: "percolator locks resolve", Runbook: "alert-percolator-stuck-locks",
		Saw: counted(n, "lock that anyone may resolve has", "locks that anyone may resolve have") + " stood for more than " +
			counted(ttls, "TTL", "times their TTL") + ", the oldest for " + text.Age(oldest) + ": is no worker running?",
		Advice: "The next reader of the cell resolves it, and so do the client that left it and workers; percolator locks resolve does it now."}
}

// Stream is what is left in a stream of the journal.
type Stream struct {
	ID      string
	Ended   bool          // the session of its client
	Age     time.Duration // of its oldest unfinished entry; 0: there is none
	Corrupt string        // why it cannot be read; "": it can be
}

// Streams looks for streams that no worker can read, or works off.
func Streams(list []Stream) (out []Finding) {
	const ls = "percolator journal ls"
	var left, late int
	var oldest, latest time.Duration
	for _, s := range list {
		if s.Corrupt != "" {
			out = append(out, Found(Failed, ls+" --stream "+s.ID, "a stream cannot be read, so nothing is collected: %s", s.Corrupt))
		}
		switch {
		case s.Ended && s.Age > AdoptionAge:
			left, oldest = left+1, max(oldest, s.Age)
		case s.Age > JournalAge:
			late, latest = late+1, max(latest, s.Age)
		}
	}
	if left > 0 {
		out = append(out, Found(Warning, ls, "streams of dead clients with unfinished work: %d, the oldest of it %s old: is no worker running?", left, text.Age(oldest)))
	}
	if late > 0 {
		out = append(out, Found(Warning, ls, "streams of living clients with unfinished work from more than %s ago: %d, the oldest of it %s old", text.Age(JournalAge), late, text.Age(latest)))
	}
	return out
}

// Backlog judges how long the oldest change has been waiting for its observers, parked ones apart.
func Backlog(oldest time.Duration) []Finding {
	if oldest <= BacklogAge {
		return nil
	}
	return []Finding{{Level: Warning, Saw: "a notification has been waiting for " + text.Age(oldest), Remedy: "percolator notify ls",
		Advice:  "Look for an observer that fails or a worker that is missing; add workers if all of them are busy.",
		Runbook: "alert-percolator-notification-backlog"}}
}

// Letters is the finding of entries of a queue that its receiver has refused for good.
func Letters(table, queue string, n int, more bool, oldest time.Duration) Finding {
	entries := counted(n, "entry", "entries")
	if more {
		entries = "more than " + entries
	}
	return Finding{Level: Warning, Saw: "the receiver of the queue " + queue + " has refused " + entries + " for good, the oldest " + text.Age(oldest) + " ago",
		Remedy: "percolator exports ls " + table + " --queue " + queue, Advice: "Read the reasons, remove the cause, retry.", Runbook: "dead-letters"}
}

// Corrupt judges how many notifications and locks cannot be decoded.
func Corrupt(n int) []Finding {
	if n <= MostCorrupt {
		return nil
	}
	return []Finding{{Level: Failed, Saw: counted(n, "notification or lock", "notifications or locks") + " cannot be decoded", Remedy: "percolator locks ls",
		Advice: "Something else has written to the tables. Look at the rows before anything is changed.", Runbook: "something-is-corrupt"}}
}
