package commit

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// TestAllocations bounds what the mutations of a commit allocate; that of store says how, and
// bounds what they cost there.
func TestAllocations(t *testing.T) {
	const start, end = tso.Timestamp(1_000_000), tso.Timestamp(1_000_100)
	sessions, err := locks.NewSessions(nil)
	if err != nil {
		t.Fatal(err)
	}
	var writes []*Write
	for i := range 20 {
		writes = append(writes, &Write{Cell: model.Cell{Table: "t", Row: "row", Column: fmt.Sprint("column-", i)}, Kind: layout.KindPut, Value: []byte("value")})
	}
	c := &Committer{Store: new(store.Store), Config: store.Settings{LockTTL: 10 * time.Second}, Locks: &locks.Resolver{Sessions: sessions}}
	cm := &commit{c: c, startTS: start, started: time.Now(), primary: writes[0]}
	narrow, broad := &rowWrites{table: "t", row: "row", writes: writes[:1]}, &rowWrites{table: "t", row: "row", writes: writes}
	var mut *store.Mutation
	for _, c := range []struct {
		name string
		most float64
		do   func()
	}{
		{"prewrite of 1 column", 2, func() { mut = cm.prewriteMutation(writes[:1]) }},
		{"prewrite of 20 columns", 22, func() { mut = cm.prewriteMutation(writes) }},
		{"commit of 1 column", 1, func() { mut = cm.commitMutation(narrow, end) }},
		{"commit of 20 columns", 2, func() { mut = cm.commitMutation(broad, end) }},
	} {
		if got := testing.AllocsPerRun(100, c.do); got > c.most {
			t.Errorf("%s: %v allocations, at most %v are allowed", c.name, got, c.most)
		}
	}
	runtime.KeepAlive(&mut)
}
