package admin_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

func TestInspectLimits(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	var commits []tso.Timestamp
	for i := range 12 {
		commits = append(commits, fixture.Put(t, ctx, env.Client, "r", "c", strings.Repeat("x", i)))
	}
	for i := range 6 {
		fixture.Put(t, ctx, env.Client, "wide", fmt.Sprintf("c%d", i), "12345")
	}
	c := env.NewClient()

	in := mustInspect(t, ctx, c, "r", admin.InspectOptions{Versions: 3, AsOf: commits[0]})
	col := oneColumnOf(t, in)
	if got := sketch(col); got != "w(put) d11 w(put) d10 w(put) d9" || !col.More || in.Truncated != "" {
		t.Errorf("versions %q, more %v, truncated %q", got, col.More, in.Truncated)
	}
	if r := col.Reader; r.State != admin.ReaderValue || r.CommitTS != commits[0] || r.Size != 0 {
		t.Errorf("a reader below what is shown: %+v", r)
	}

	in = mustInspect(t, ctx, c, "wide", admin.InspectOptions{Cells: 3})
	if len(in.Columns) != 3 || in.Columns[2].Column != "c2" || !strings.Contains(in.Truncated, `"c3"`) {
		t.Errorf("%d columns, truncated %q", len(in.Columns), in.Truncated)
	}
	in = mustInspect(t, ctx, c, "r", admin.InspectOptions{Cells: 3, Versions: 3})
	if len(in.Columns) != 1 || in.Truncated == "" && !in.Columns[0].More {
		t.Errorf("one column with more than all cells: %+v", in)
	}

	in = mustInspect(t, ctx, c, "wide", admin.InspectOptions{Bytes: 10})
	var known, unread int
	for _, col := range in.Columns {
		if size := col.Versions[1].Data.Size; size == 5 {
			known++
		} else if size == -1 {
			unread++
		}
	}
	if known != 2 || unread != 4 || !strings.Contains(in.Truncated, "sizes of") {
		t.Errorf("%d sizes known, %d not, truncated %q", known, unread, in.Truncated)
	}

	for _, bad := range []admin.InspectOptions{
		{Cells: admin.MaxInspectCells + 1}, {Cells: -1}, {Versions: -1}, {Versions: 10, Cells: 5}, {Bytes: -1}, {AsOf: -1},
		{ValueBytes: admin.MaxInspectValueBytes + 1}, {AsOf: in.Now.Add(time.Hour)},
		{Columns: make([]string, admin.MaxInspectColumns+1)}, {Columns: []string{strings.Repeat("x", 5000)}},
	} {
		_, err := admin.New(c).InspectRow(ctx, "t", "r", bad)
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
	}
	_, err := admin.New(c).InspectRow(ctx, "percolator_meta", "meta", admin.InspectOptions{})
	fixture.WantErr(t, err, percolator.ErrInvalidArgument)
	_, err = admin.New(c).InspectRow(ctx, "unknown", "r", admin.InspectOptions{})
	fixture.WantErr(t, err, percolator.ErrSchemaMismatch)
	_, err = admin.New(c).InspectRow(ctx, "t", "", admin.InspectOptions{})
	fixture.WantErr(t, err, percolator.ErrInvalidArgument)
}

// TestInspectLargeValues: sizes are learnt in small answers, and large values do not stay in
// memory.
func TestInspectLargeValues(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	for i := range 40 {
		size := 10
		if i%10 == 9 {
			size = 3 << 20
		}
		fixture.Must(t, tx.Set(fixture.Cell("r", fmt.Sprintf("c%02d", i)), bytes.Repeat([]byte{'v'}, size)))
	}
	fixture.MustCommit(t, ctx, tx)
	c := env.NewClient()
	in := mustInspect(t, ctx, c, "r", admin.InspectOptions{Values: true})
	if len(in.Columns) != 40 || in.Truncated != "" {
		t.Fatalf("%d columns, truncated %q", len(in.Columns), in.Truncated)
	}
	for i, col := range in.Columns {
		if want := map[bool]int64{true: 3 << 20, false: 10}[i%10 == 9]; col.Versions[1].Data.Size != want || col.Reader.Size != want || cap(col.Reader.Value) > 1<<10 {
			t.Errorf("%s: %d bytes, reader %d, %d kept", col.Column, col.Versions[1].Data.Size, col.Reader.Size, cap(col.Reader.Value))
		}
	}
}

func TestInspectTooOld(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	ts := fixture.Put(t, ctx, env.Client, "r", "c", "x")
	mut := bigtable.NewMutation()
	mut.Set("meta", "safepoint", 1000, be(uint64(ts)))
	fixture.Must(t, env.Store().Open("percolator_meta").Apply(ctx, "meta", mut))
	in := mustInspect(t, ctx, env.Client, "r", admin.InspectOptions{AsOf: ts})
	if r := oneColumnOf(t, in).Reader; r.State != admin.ReaderTooOld || r.Reason == "" || in.Safepoint != ts {
		t.Errorf("%+v, safepoint %d", r, in.Safepoint)
	}
}

func be(n uint64) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(n >> (8 * (7 - i)))
	}
	return b
}
