package dispatch

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

func notification(table, row, column string, ts tso.Timestamp) model.Notification {
	return model.Notification{Cell: model.Cell{Table: table, Row: row, Column: column}, Timestamp: ts}
}

// What is passed on arrives as it was, whatever bytes its names hold.
func TestPassedOnArrivesAsItWas(t *testing.T) {
	t.Parallel()
	text := func(least, most int) *rapid.Generator[string] {
		return rapid.Map(rapid.SliceOfN(rapid.Byte(), least, most), func(b []byte) string { return string(b) })
	}
	rapid.Check(t, func(t *rapid.T) {
		// Names of 128 bytes and more have a length of two bytes.
		name := rapid.OneOf(text(0, 3), text(120, 140))
		n := notification(name.Draw(t, "table"), text(1, 20).Draw(t, "row"), name.Draw(t, "column"), tso.Timestamp(rapid.Int64Min(1).Draw(t, "ts")))
		if got, ok := decodePassed(encodePassed(n)); !ok || got != n {
			t.Errorf("%+v arrived as %+v, %v", n, got, ok)
		}
	})
}

// What no client has sent is refused.
func TestPassedOnByNobody(t *testing.T) {
	t.Parallel()
	whole := encodePassed(notification("table", "r", "column", 7))
	for n := range whole {
		if got, ok := decodePassed(whole[:n]); ok {
			t.Errorf("the first %d bytes are %+v", n, got)
		}
	}
	for name, data := range map[string]string{
		"a length of 11 bytes":         strings.Repeat("\xff", 10) + "\x01",
		"a length beyond int":          strings.Repeat("\xff", 9) + "\x01" + "rest",
		"a column beyond the end":      "\x01t\x7fcolumn",
		"no timestamp":                 encodePassed(notification("t", "r", "c", 0)),
		"a timestamp below zero":       encodePassed(notification("t", "r", "c", -1)),
		"an empty row":                 encodePassed(notification("t", "", "c", 7)),
		"a row that no table can hold": encodePassed(notification("t", strings.Repeat("r", model.MaxRowKeyBytes+1), "c", 7)),
	} {
		if got, ok := decodePassed(data); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// FuzzDecodePassed: bytes that nobody sent are refused, never a panic; what is accepted can be
// passed on.
func FuzzDecodePassed(f *testing.F) {
	f.Add(encodePassed(notification("t", "r", "c", 7)))
	f.Add(encodePassed(notification("", "row", strings.Repeat("c", 200), 1<<62)))
	f.Add("\x01t\x80\x00\x00\x00\x00\x00\x00\x00\x00\x01r") // a length that could be shorter
	f.Add(strings.Repeat("\xff", 9) + "\x01")
	f.Add("")
	f.Fuzz(func(t *testing.T, data string) {
		n, ok := decodePassed(data)
		if !ok {
			return
		}
		if again, ok := decodePassed(encodePassed(n)); !ok || again != n {
			t.Errorf("%+v was passed on as %+v, %v", n, again, ok)
		}
	})
}

// passedOn is an oracle that keeps the hints that it is left.
type passedOn struct {
	tso.Oracle
	mu    sync.Mutex
	hints []coordination.Hint
}

func (o *passedOn) LeaveHints(_ context.Context, hints []coordination.Hint) ([]uint64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hints = append(o.hints, hints...)
	return nil, nil
}

func (o *passedOn) TakeHints(_ context.Context, topics []uint64, _ int, _ time.Duration) (taken []coordination.Hint, _ error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.hints {
		for _, topic := range topics {
			if h.Topic == topic {
				taken = append(taken, h)
			}
		}
	}
	return taken, nil
}

// A hint has 8 KiB at most. The largest that fits is passed on, to the worker of that name alone; a
// larger one is not.
func TestOnlyWhatFitsIsPassedOn(t *testing.T) {
	t.Parallel()
	var o passedOn
	s := store.New(context.Background(), nil, &telemetry.Counters{})
	t.Cleanup(s.Stop)
	d := &Dispatcher{Store: s, Hints: NewHinter(store.Settings{Logger: slog.New(slog.DiscardHandler)}, &o, s.Count)}
	fixed := len(encodePassed(notification(strings.Repeat("t", 4000), "r", strings.Repeat("c", 2000), 7))) - 1
	fits := notification(strings.Repeat("t", 4000), strings.Repeat("r", 8<<10-fixed), strings.Repeat("c", 2000), 7)
	tooLong := fits
	tooLong.Cell.Row += "r"
	if len(encodePassed(fits)) != 8<<10 || len(tooLong.Cell.Row) > model.MaxRowKeyBytes {
		t.Fatalf("%d bytes with a row of %d", len(encodePassed(fits)), len(fits.Cell.Row))
	}
	if d.Pass("w", tooLong) {
		t.Error("a notification of more than 8 KiB was passed on")
	}
	if !d.Pass("w", fits) {
		t.Error("a notification of 8 KiB was not passed on")
	}
	d.Hints.senders.Wait()
	if len(o.hints) != 1 {
		t.Fatalf("%d hints were left", len(o.hints))
	}
	heard := func(worker string) []model.Notification {
		got, err := d.AwaitNotifications(t.Context(), Question{Worker: worker, Columns: []model.Cell{{Table: "t", Column: "c"}}, Most: 10})
		if err != nil {
			t.Fatal(err)
		}
		return got.Notified
	}
	if got := heard("w"); len(got) != 1 || got[0] != fits {
		t.Errorf("the worker heard of %d", len(got))
	}
	if n := len(heard("v")) + len(heard("")); n != 0 {
		t.Errorf("other workers heard of %d", n)
	}
}
