package model

import (
	"time"
)

// Timing is what every client of an instance must agree on: a collector infers from it what other
// clients can no longer do. It is stored with the schema and can never be changed. A schema that
// leaves it open, with zeros, fits whatever is stored; the first one of an instance gets the
// defaults, or what admin.Instance.ProposeTiming has stored.
type Timing struct {
	// RequestLifetime bounds every request: no client sends or repeats one after it
	// (docs/PROTOCOL.md, I14). 0: 30 s, which is also the most; at least 100 ms.
	RequestLifetime time.Duration `json:",omitzero"`

	// MetaMaxAge is the age of its knowledge of schema and safepoint at which a client refuses to
	// commit and to answer reads (I16). Clients read both again at a quarter of it. A change of the
	// schema is in force that long after it was stored. 0: 45 s. From 200 ms to 10 min, and no less
	// than RequestLifetime: an answer that takes its whole lifetime is not too old when it arrives.
	MetaMaxAge time.Duration `json:",omitzero"`
}

// DefaultTiming is what the zero Timing stands for.
var DefaultTiming = Timing{RequestLifetime: 30 * time.Second, MetaMaxAge: 45 * time.Second}
