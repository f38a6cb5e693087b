package main

import (
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// lockJSON is a lock in the output for programs. Names are as shown; a lock that cannot be decoded
// has neither primary nor kind.
type lockJSON struct {
	Table    string        `json:"table"`
	Row      string        `json:"row"`
	Column   string        `json:"column"`
	State    string        `json:"state"` // alive, committed, rolled back, dead or undecodable
	Kind     string        `json:"kind,omitempty"`
	Start    tso.Timestamp `json:"start"`
	Started  *time.Time    `json:"started,omitempty"`
	Commit   tso.Timestamp `json:"commit,omitempty"` // with state committed
	Expires  *time.Time    `json:"expires,omitempty"`
	Session  string        `json:"session,omitempty"` // none, open, ended or unknown
	Primary  *primaryJSON  `json:"primary,omitempty"` // where its transaction status is
	Observed bool          `json:"observed"`          // its commit notifies observers
	Reason   string        `json:"reason,omitempty"`
}

type primaryJSON struct {
	Table  string `json:"table"`
	Row    string `json:"row"`
	Column string `json:"column"`
	Locked bool   `json:"locked"` // it holds the transaction's lock
}

func newLockJSON(l *admin.LockInspection) *lockJSON {
	if l == nil {
		return nil
	}
	out := &lockJSON{
		Table: l.Cell.Table, Row: shown(l.Cell.Row), Column: shown(l.Cell.Column), State: string(l.State), Kind: l.Kind,
		Start: l.StartTS, Commit: l.CommitTS, Session: string(l.SessionState), Observed: l.Observed, Reason: l.Reason,
	}
	if l.StartTS != 0 {
		started := l.StartTS.Time()
		out.Started = &started
	}
	if l.Kind != "" {
		expires := l.Expires.Time()
		out.Expires = &expires
		out.Primary = &primaryJSON{l.Primary.Table, shown(l.Primary.Row), shown(l.Primary.Column), l.PrimaryLocked}
	}
	return out
}

// storedTables are the tables of a schema with those of its indexes, all of which may have locks.
func storedTables(s *percolator.Schema) (tables []string) {
	for _, t := range s.Tables {
		tables = append(tables, t.Name)
		for _, ix := range t.Indexes {
			tables = append(tables, t.Name+"."+ix.Name)
		}
	}
	return tables
}
