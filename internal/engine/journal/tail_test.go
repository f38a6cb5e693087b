package journal_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
)

// A tail reads each row once, of known streams, new ones and such without a header, and a row that
// is not taken again.
func TestTailReadsEachRowOnce(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	e := env.Client.Engine()
	fixture.Put(t, ctx, env.Client, "row", "name", "1")
	streams, err := journal.Streams(ctx, e.Store)
	fixture.Must(t, err)
	table := env.Store().Open(model.JournalTable)
	row, err := table.ReadRow(ctx, string(streams[0].ID)+"\x00\x00\x00\x00\x00\x00\x00\x01")
	fixture.Must(t, err)
	fixture.Must(t, journal.Forget(ctx, e.Store, streams[0].ID, []uint64{1}))
	plant := func(stream string, seqs ...int) {
		for _, seq := range seqs {
			mut := bigtable.NewMutation()
			for _, cell := range row["journal"] {
				mut.Set("journal", strings.TrimPrefix(cell.Column, "journal:"), cell.Timestamp, cell.Value)
			}
			fixture.Must(t, table.Apply(ctx, stream+string(binary.BigEndian.AppendUint64(nil, uint64(seq))), mut))
		}
	}
	a, b := "\x05"+strings.Repeat("a", 16), "\x05"+strings.Repeat("b", 16)
	last := "\x3f" + strings.Repeat("\xff", 16)
	tail := journal.NewTail(map[journal.StreamID]uint64{journal.StreamID(b): 3})
	read := func(refuse string) string {
		var got []string
		err := tail.Read(ctx, e.Store, func(id journal.StreamID, r journal.StreamRow) bool {
			name := fmt.Sprintf("%s%d", string(id)[1:2], r.Seq)
			if name == refuse {
				return false
			}
			got = append(got, name)
			return true
		}, func() error { return nil })
		fixture.Must(t, err)
		return strings.Join(got, " ")
	}
	plant(b, 1, 2, 3, 5)
	for _, step := range []struct {
		plant  func()
		refuse string
		want   string
	}{
		{func() {}, "", "b3 b5"},
		{func() {}, "", ""},
		{func() { plant(a, 1); plant(b, 6); plant(last, 2) }, "", "a1 b6 \xff2"},
		{func() { plant(a, 2, 3, 4); plant(b, 7) }, "a3", "a2 b7"},
		{func() {}, "", "a3 a4"},
		{func() { tail.Back(journal.StreamID(a), 4) }, "", "a4"},
		{func() { tail.Forget(func(id journal.StreamID) bool { return id != journal.StreamID(last) }) }, "", "\xff2"},
	} {
		step.plant()
		if got := read(step.refuse); got != step.want {
			t.Errorf("read %q, want %q", got, step.want)
		}
	}

	// Many rows take several requests, which pass over what is left of a stream that has ended.
	var many []int
	for i := range 600 {
		many = append(many, 10+i)
	}
	plant(a, many...)
	plant(b, 8)
	if got := read("a15"); got != "a10 a11 a12 a13 a14 b8" {
		t.Errorf("read %q", got)
	}
	if got := strings.Fields(read("")); len(got) != 595 || !slices.Contains(got, "a609") {
		t.Errorf("read %d rows of 595", len(got))
	}
	// What is to be read again is not passed by the rows that follow it.
	plant(a, 700, 701, 702)
	fixture.Must(t, tail.Read(ctx, e.Store, func(journal.StreamID, journal.StreamRow) bool { return true }, func() error {
		tail.Back(journal.StreamID(a), 701)
		return nil
	}))
	if got := read(""); got != "a701 a702" {
		t.Errorf("read %q", got)
	}
	stop := errors.New("enough")
	plant(b, 9)
	if err := tail.Read(ctx, e.Store, func(journal.StreamID, journal.StreamRow) bool { return true }, func() error { return stop }); err != stop {
		t.Errorf("the error of a page: %v", err)
	}
	fixture.Plant(t, ctx, env, model.JournalTable, b+"\x00\x00\x00\x00\x00\x00\x00\x0a", "journal", "batch", 1000, "no batch")
	err = tail.Read(ctx, e.Store, func(journal.StreamID, journal.StreamRow) bool { return true }, func() error { return nil })
	fixture.WantErr(t, err, model.ErrCorrupt)
}
