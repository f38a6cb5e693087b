package percolator_test

import (
	"context"
	"strings"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// withDeadRows loses the bulk mutations and reads that name rows which no tablet server has at
// present, and tells of each.
func withDeadRows(env *percolatortest.Env) (refused chan string) {
	refused = make(chan string, 1000)
	env.FaultsOf(env.Client).Handle(func(r percolatortest.Request) percolatortest.Action {
		var rows []string
		switch m := r.Message.(type) {
		case *btpb.MutateRowsRequest:
			for _, e := range m.Entries {
				rows = append(rows, string(e.RowKey))
			}
		case *btpb.ReadRowsRequest:
			for _, k := range m.GetRows().GetRowKeys() {
				rows = append(rows, string(k))
			}
		}
		for _, row := range rows {
			if strings.HasPrefix(row, "dead") {
				select {
				case refused <- row:
				default:
				}
				return percolatortest.LoseRequest
			}
		}
		return percolatortest.Pass
	})
	return refused
}

// Rows that no tablet server has at present hold up their own phase two, and not that of the rest
// of the table: else observers of live rows starve for as long as the dead ones are retried.
func TestPhaseTwoOfLiveRowsPassesDeadOnes(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	refused := withDeadRows(env)
	notified := make(chan struct{}, 1)
	defer c.Engine().Dispatch.HandleNotify(func(n model.Notification) bool {
		if n.Cell.Row == "live" {
			notified <- struct{}{}
		}
		return false
	})()
	for _, row := range []string{"dead1", "dead2", "live"} {
		tx := fixture.MustBegin(t, ctx, c)
		fixture.Must(t, tx.Set(fixture.Cell("primary-of-"+row, "c"), []byte("x")))
		fixture.Must(t, tx.Set(fixture.Cell(row, "seen"), []byte("x")))
		fixture.MustCommit(t, ctx, tx)
		for row != "live" && <-refused != row {
		}
	}
	select {
	case <-notified:
	case <-time.After(5 * time.Second):
		t.Error("phase two of a live row waits for dead ones")
	}
}

// A read of a live row is not held up by reads of rows that no tablet server has, whether it comes
// after them or with them.
func TestReadsOfLiveRowsPassDeadOnes(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Put(t, ctx, c, "live", "c", "1", "dead1", "c", "1", "dead2", "c", "1", "dead3", "c", "1")
	fixture.Must(t, c.Flush(ctx))
	refused := withDeadRows(env)
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	read := func(row string) error {
		tx, err := c.Begin(short)
		if err == nil {
			_, err = tx.Get(short, fixture.Cell(row, "c"))
		}
		return err
	}
	for _, row := range []string{"dead1", "dead2"} {
		go func() { _ = read(row) }()
		for <-refused != row {
		}
	}
	go func() { _ = read("dead3") }()
	if err := read("live"); err != nil {
		t.Errorf("a read of a live row: %v", err)
	}
}
