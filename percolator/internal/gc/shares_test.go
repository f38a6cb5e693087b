package gc

import (
	"slices"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/store"
)

// TestShareThatIsSavedBetweenStreams: a share whose first stream has nothing left can be read.
func TestShareThatIsSavedBetweenStreams(t *testing.T) {
	t.Parallel()
	id := make([]byte, 17)
	sh := share{Watermark: 5, Asked: 9, Streams: []streamRows{{ID: id, Rows: seqs{1, 3}.after(3)}, {ID: id, Rows: seqs{7, 7}}}}
	got, err := decodeShare(shareColumn(0, 0), sh.encode())
	if err != nil || len(got.Streams) != 1 || !slices.Equal(got.Streams[0].Rows, seqs{7, 7}) || len(sh.Streams) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A share with many rows is erased in parts: each row is in one of them, each stream in one piece.
func TestLargeSharesComeInParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ streams, rows, parts int }{{0, 0, 1}, {3, 10, 1}, {1, 1 << 20, 1}, {2, 1 << 20, 2}, {40, partRows, maxParts}, {2, partRows, 2}} {
		sh := &heldShare{share: share{Watermark: 5, Asked: 9, State: shareResolved}}
		sh.cell.at.Column = shareColumn(7, 0)
		for i := range c.streams {
			id := append([]byte{7}, make([]byte, 16)...)
			id[1] = byte(i)
			sh.Found = append(sh.Found, streamRows{id, seqs{1, uint64(c.rows)}})
		}
		cells := sh.toErase()
		seen := map[string]int{}
		for column, b := range cells {
			part, err := decodeShare(column, b)
			if err != nil || part.State != shareErase || part.Watermark != 5 || part.Asked != 9 {
				t.Errorf("part %s is %+v, %v", column, part, err)
			}
			for _, st := range part.Streams {
				seen[string(st.ID)] += st.Rows.size()
			}
			if of := (&heldShare{cell: LeaseCell[share]{at: store.MetaCell{Column: column}}}); of.shard() != 7 {
				t.Errorf("%s is of shard %d", column, of.shard())
			}
		}
		if len(cells) != c.parts || len(seen) != c.streams {
			t.Errorf("%+v: %d parts with %d streams", c, len(cells), len(seen))
		}
		for id, n := range seen {
			if n != c.rows {
				t.Errorf("%+v: %d rows of %x", c, n, id)
			}
		}
	}
}
