package dispatch

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A hand-over arrives as it was, or as much of it as a hint holds.
func TestHandOverArrivesAsItWas(t *testing.T) {
	t.Parallel()
	column := model.Cell{Table: "t", Column: "c"}
	row := rapid.OneOf(rapid.StringN(1, 5, 5), rapid.StringN(1, 3000, model.MaxRowKeyBytes))
	ts := rapid.Map(rapid.Int64Min(1), func(n int64) tso.Timestamp { return tso.Timestamp(n) })
	rapid.Check(t, func(t *rapid.T) {
		s := HandOver{Times: rapid.IntRange(1, 255).Draw(t, "hand-overs"), From: rapid.Uint64().Draw(t, "from")}
		for _, row := range rapid.SliceOfNDistinct(row, 1, 300, rapid.ID).Draw(t, "rows") {
			s.Notified = append(s.Notified, notification("t", row, "c", ts.Draw(t, "ts")))
		}
		data, cells := encodeHandOver(s)
		switch {
		case cells == 0 || len(data) > hintBytes:
			t.Fatalf("%d cells in %d bytes", cells, len(data))
		case cells < len(s.Notified):
			if more, all := encodeHandOver(HandOver{Notified: s.Notified[:cells+1], Times: 1}); all > cells {
				t.Errorf("%d cells fit into %d bytes", all, len(more))
			}
			s.Notified = s.Notified[:cells]
		}
		if got, ok := decodeHandOver(column, data); !ok || !reflect.DeepEqual(got, s) {
			t.Errorf("%+v arrived as %+v, %v", s, got, ok)
		}
	})
}

// Rows with a prefix in common take up little: a batch of 250 URLs fits.
func TestHandOverOfABatch(t *testing.T) {
	t.Parallel()
	s := HandOver{Times: 1}
	for i := range 250 {
		row := fmt.Sprintf("https://documentation.example/api/java.base/java/util/concurrent/Class%03d.html", i)
		s.Notified = append(s.Notified, notification("t", row, "c", tso.Timestamp(240_000_000_000_000+1000*i)))
	}
	if data, cells := encodeHandOver(s); cells != 250 {
		t.Errorf("%d cells in %d bytes", cells, len(data))
	}
}

func FuzzHandOver(f *testing.F) {
	whole, _ := encodeHandOver(HandOver{Times: 1, From: 7, Notified: []model.Notification{notification("t", "row-1", "c", 5), notification("t", "row-2", "c", 3)}})
	for n := range whole {
		f.Add(whole[:n])
	}
	f.Add(whole)
	f.Add("\x00" + whole[1:])
	f.Fuzz(func(t *testing.T, data string) {
		s, ok := decodeHandOver(model.Cell{Table: "t", Column: "c"}, data)
		if !ok {
			return
		}
		for _, n := range s.Notified {
			if n.Timestamp <= 0 || n.Cell.Row == "" || len(n.Cell.Row) > model.MaxRowKeyBytes || n.Cell.Table != "t" || n.Cell.Column != "c" {
				t.Errorf("%+v", n)
			}
		}
		if len(s.Notified) == 0 || s.Times < 1 {
			t.Errorf("%+v", s)
		}
	})
}
