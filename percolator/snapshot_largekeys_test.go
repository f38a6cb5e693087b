package percolator_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// longCell has a key of 2 KB: 512 of them are more than a request may have.
func longCell(i int) percolator.Cell {
	return fixture.Cell(fmt.Sprintf("%06d", i)+strings.Repeat("k", 2000), "c")
}

// Concurrent reads of long keys travel in requests that Bigtable takes: it refuses those of more
// than 512 KiB.
func TestConcurrentReadsOfLongKeys(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, concurrentReadsOfLongKeys) // all wait before a slow request lets some go
}

func concurrentReadsOfLongKeys(t *testing.T) {
	const reads = 1800
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	held := percolatortest.NewHold()
	env.FaultsOf(c).Handle(fixture.AtMost(reads, func(r percolatortest.Request) bool { return r.Method == percolatortest.ReadRows && r.Table == "t" }, held))
	errs := make([]error, reads)
	var all sync.WaitGroup
	for i := range reads {
		all.Go(func() { errs[i] = fixture.ErrOf(s.Get(ctx, longCell(i))) })
	}
	fixture.Eventually(t, "the others wait", func() bool { return c.Engine().Reads.Waiting() >= reads/2 })
	held.Release()
	all.Wait()
	failed := 0
	for _, err := range errs {
		if errors.Is(err, percolator.ErrNotFound) {
			continue
		}
		if failed++; failed == 1 {
			t.Error(err)
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d reads failed", failed, reads)
	}
	largest := largestRead(env, c)
	t.Logf("%d reads in %d requests of up to %d bytes", reads, fixture.Tally(env, c)[percolatortest.ReadRows], largest)
	if largest < 400<<10 {
		t.Errorf("the largest request has %d bytes: batches are smaller than they need to be", largest)
	}
}

// So do the keys of one GetMulti.
func TestGetMultiOfLongKeys(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	var cells []percolator.Cell
	for i := range 500 {
		cells = append(cells, longCell(i))
	}
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Set(cells[499], []byte("last")))
	fixture.MustCommit(t, ctx, tx)
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	values, err := s.GetMulti(ctx, cells...)
	fixture.Must(t, err)
	if string(values[499]) != "last" || values[0] != nil {
		t.Errorf("read %q and %q", values[0], values[499])
	}
	if n := fixture.Tally(env, c)[percolatortest.ReadRows]; n > 3 {
		t.Errorf("1 MB of keys took %d requests", n)
	}
}

// largestRead is the size in bytes of the client's largest ReadRows.
func largestRead(env *percolatortest.Env, c *percolator.Client) (size int) {
	for _, r := range env.FaultsOf(c).Requests() {
		if m, ok := r.Message.(*btpb.ReadRowsRequest); ok {
			size = max(size, proto.Size(m))
		}
	}
	return size
}
