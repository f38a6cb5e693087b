package journal

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

func someCommitted() []Committed {
	return []Committed{
		{5, 7, []CommittedRow{{0, []string{"a", "b"}}, {3, []string{"a"}}}},
		{8, tso.MaxTimestamp, []CommittedRow{{1, []string{"c\x00d"}}}},
	}
}

func TestCommittedSurvivesItsEncoding(t *testing.T) {
	t.Parallel()
	var b committedBatch
	for _, c := range someCommitted() {
		b.add(c)
	}
	if got := decodeCommitted(b.encode()); !reflect.DeepEqual(got, someCommitted()) {
		t.Errorf("%+v", got)
	}
	if got := new(committedBatch).encode(); got != nil {
		t.Errorf("nothing is encoded as %q", got)
	}
}

// What waits to be told is bounded: the rest is not told.
func TestCommittedIsBounded(t *testing.T) {
	t.Parallel()
	var b committedBatch
	for i := range 10_000 {
		b.add(Committed{tso.Timestamp(i + 1), tso.Timestamp(i + 9), []CommittedRow{{0, []string{strings.Repeat("x", i%100)}}}})
	}
	value := b.encode()
	if len(value) > maxCommittedBytes+16 || len(value) < maxCommittedBytes/2 {
		t.Errorf("%d bytes", len(value))
	}
	if got := len(decodeCommitted(value)); got < 100 || got >= 10_000 {
		t.Errorf("%d transactions", got)
	}
}

// TestOwnerTellsOfWhatHasCommitted: once phase two is done, once, in the stream of the entry, and
// neither of a transaction that was rolled back, nor where a row was left to lock resolution.
func TestOwnerTellsOfWhatHasCommitted(t *testing.T) {
	t.Parallel()
	o, id := NewOwner(), newStreamID()
	rows := func() []CommittedRow { return []CommittedRow{{0, []string{"c"}}} }
	var all []*Append
	for i := range 4 {
		w := &Append{entry: &model.JournalEntry{StartTS: tso.Timestamp(10 * (i + 1)), Primary: model.Cell{Table: "t", Row: "r", Column: "c"}, Rows: []model.JournalName{{Table: "t", Key: "r"}}}}
		w.Overwrites(rows)
		o.sent(id, uint64(i+1), []*part{{entry: w.entry, of: w}})
		all = append(all, w)
	}
	o.Committed(all[0], 11, 1, nil)
	o.RolledBack(all[1])
	o.Committed(all[2], 31, 1, nil)
	o.RowDone(all[2], errBatch)
	if value := o.takeCommitted(id); value != nil {
		t.Fatalf("it tells %+v too early", decodeCommitted(value))
	}
	o.RowDone(all[0], nil)
	o.Committed(all[3], 41, 0, []model.Cell{{Table: "t", Row: "r", Column: "c"}}) // its notification stands
	got := decodeCommitted(o.takeCommitted(id))
	if len(got) != 2 || got[0].StartTS != 10 || got[0].CommitTS != 11 || got[1].StartTS != 40 {
		t.Errorf("it tells %+v", got)
	}
	o.Cleared(model.Cell{Table: "t", Row: "r", Column: "c"}, 100, all[3].until.AddDate(1, 0, 0))
	if value := o.takeCommitted(id); value != nil {
		t.Errorf("it tells %+v again", decodeCommitted(value))
	}
}

// FuzzCommitted: bytes that nobody wrote say nothing, or what could have been written.
func FuzzCommitted(f *testing.F) {
	var b committedBatch
	for _, c := range someCommitted() {
		b.add(c)
	}
	f.Add(b.encode())
	f.Add([]byte{committedVersion, 0})
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, c := range decodeCommitted(value) {
			if c.StartTS <= 0 || c.CommitTS <= c.StartTS || c.CommitTS > tso.MaxTimestamp {
				t.Fatalf("%+v", c)
			}
			for _, r := range c.Rows {
				if r.Place < 0 || r.Place > MaxBatchBytes {
					t.Fatalf("%+v", c)
				}
			}
		}
	})
}
