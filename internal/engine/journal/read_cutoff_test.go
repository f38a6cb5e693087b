package journal_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A read of a stream that is cut off goes on where it was cut, though it has passed over nothing
// but what is deleted.
func TestReadsOfAStreamThatAreCutOff(t *testing.T) {
	t.Parallel()
	id := "\x05" + strings.Repeat("s", 16)
	key := func(seq uint64) string { return string(binary.BigEndian.AppendUint64([]byte(id), seq)) }
	disks := &emulator.Disks{Reach: 31_000, Clean: []emulator.Clean{{Table: model.JournalTable, Start: key(1), End: key(1001), Bytes: 200_000}}}
	env := percolatortest.New(t, fixture.Schema(), fixture.OnDisks(disks))
	ctx := fixture.Context(t)
	e := env.Client.Engine()

	// The only stream is one with the rows 400 and 900, each a copy of what the client has
	// appended.
	fixture.Put(t, ctx, env.Client, "row", "name", "1")
	streams, err := journal.Streams(ctx, e.Store)
	fixture.Must(t, err)
	table := env.Store().Open(model.JournalTable)
	plant := func(from, to string) {
		row, err := table.ReadRow(ctx, from)
		fixture.Must(t, err)
		mut := bigtable.NewMutation()
		for _, cell := range row["journal"] {
			mut.Set("journal", strings.TrimPrefix(cell.Column, "journal:"), cell.Timestamp, cell.Value)
		}
		fixture.Must(t, table.Apply(ctx, to, mut))
	}
	own := streams[0].ID
	plant("\x41"+string(own), "\x41"+id)
	plant(string(own)+key(1)[len(id):], key(400))
	plant(string(own)+key(1)[len(id):], key(900))
	fixture.Must(t, journal.Forget(ctx, e.Store, own, []uint64{0, 1}))

	before := disks.Reads(model.JournalTable)
	var seqs []uint64
	for rows, err := range journal.ReadStream(ctx, e.Store, journal.StreamID(id), 1, 10) {
		fixture.Must(t, err)
		for _, row := range rows {
			seqs = append(seqs, row.Seq)
		}
	}
	if !slices.Equal(seqs, []uint64{400, 900}) {
		t.Errorf("the stream has the rows %d", seqs)
	}
	if n := disks.Reads(model.JournalTable) - before; n < 7 || n > 9 {
		t.Errorf("%d reads, want one for each seventh of what is deleted", n)
	}
	var names []layout.RowID
	for page, err := range journal.Named(ctx, e.Store, journal.Selection{}) {
		fixture.Must(t, err)
		names = append(names, page...)
	}
	if want := (layout.RowID{Table: "t", Key: "row"}); !slices.Equal(names, []layout.RowID{want}) {
		t.Errorf("entries name %v, want %v", names, want)
	}
	for from, want := range map[uint64]bool{1: true, 401: true, 901: false} {
		if has, err := journal.HasRows(ctx, e.Store, journal.StreamID(id), from); err != nil || has != want {
			t.Errorf("rows from %d on: %v, %v", from, has, err)
		}
	}
}
