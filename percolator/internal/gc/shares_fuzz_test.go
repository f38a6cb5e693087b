package gc

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/gopercolator/percolator/percolator/model"
)

// FuzzDecodeShare: a share is refused, or comes back as it is, with rows that are in order.
func FuzzDecodeShare(f *testing.F) {
	sh := share{Watermark: 5, Asked: 9, Streams: []streamRows{{ID: make([]byte, 17), Rows: seqs{1, 3, 7, 7}}}, Holder: "h", Expires: 11, Did: tally{Rows: 2}}
	f.Add(sh.encode())
	f.Add([]byte(`{"Streams":[{"ID":"AAAA","Rows":[3,1]}]}`))
	f.Add([]byte(`{"Streams":[{"ID":"AAAA","Rows":[1]}]}`))
	f.Add([]byte(`{"Streams":[{"ID":"AAAA","Rows":[]}]}`))
	f.Add([]byte(`{"Streams":[{"Rows":[0,18446744073709551615]}]}`))
	f.Add([]byte("null"))
	f.Add([]byte(`{"Watermark":-1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		sh, err := decodeShare("share-00", b)
		if err != nil {
			if !errors.Is(err, model.ErrCorrupt) {
				t.Errorf("%q: %v", b, err)
			}
			return
		}
		for _, st := range slices.Concat(sh.Streams, sh.Found) {
			if len(st.ID) != streamIDBytes || !st.Rows.valid() || len(st.Rows) == 0 {
				t.Fatalf("%q has rows %v of stream %x", b, st.Rows, st.ID)
			}
		}
		stored := sh.encode()
		again, err := decodeShare("share-00", stored)
		if err != nil || string(again.encode()) != string(stored) {
			t.Errorf("%s comes back as %s, %v", stored, again.encode(), err)
		}
	})
}

// A shard with more rows than fit into its share: the share is within its limit, holds nothing that
// was not resolved, and in some cycle each stream has its turn.
func TestDivisionOfMoreThanAShareHolds(t *testing.T) {
	t.Parallel()
	const streams, ranges = 40, 200
	var resolved []streamRows
	for i := range streams {
		var rows seqs
		for n := range uint64(ranges) {
			rows = rows.with(1<<62 + 2*n) // of as many digits as there can be
		}
		resolved = append(resolved, streamRows{binary.BigEndian.AppendUint64(make([]byte, 9), uint64(i)), rows})
	}
	seen := map[string]bool{}
	for range 200 {
		sh := share{Watermark: 5, Asked: 9, State: shareResolved, Found: fit(resolved)}
		if b := sh.encode(); len(b) > shareBytes+300 { // the other fields
			t.Fatalf("a share has %d bytes", len(b))
		}
		for _, st := range sh.Found {
			seen[string(st.ID)] = true
			of := slices.IndexFunc(resolved, func(r streamRows) bool { return string(r.ID) == string(st.ID) })
			if of < 0 || len(st.Rows) > len(resolved[of].Rows) || !slices.Equal(st.Rows, resolved[of].Rows[:len(st.Rows)]) {
				t.Fatalf("it has rows that were not resolved")
			}
		}
	}
	if len(seen) != len(resolved) {
		t.Errorf("%d of %d streams had their turn", len(seen), len(resolved))
	}
}
