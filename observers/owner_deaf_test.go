package observers

import (
	"context"
	"errors"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/membership"
)

// failingRegister fails a number of writes as membership.Register does: it returns what it would
// have told, with the new lease.
type failingRegister struct {
	*fakeDirectory
	fail int
}

func (d *failingRegister) Register(ctx context.Context, w membership.WorkerInfo, seen membership.Workers) (membership.WorkerInfo, error) {
	if d.fail > 0 {
		d.fail--
		w.Expires = oracleNow().Add(d.lease)
		return w, errors.New("the list cannot be written")
	}
	return d.fakeDirectory.Register(ctx, w, seen)
}

// A worker that has become deaf says so, even if its first attempt fails.
func TestDeafWorkerSaysSoAgain(t *testing.T) {
	d := &failingRegister{fakeDirectory: newFakeDirectory()}
	deaf := false
	m := &partition{
		directory: d, cannot: func(error) {}, self: membership.WorkerInfo{Name: "a"}, owners: new(owners),
		deaf: func() bool { return deaf },
	}
	m.owners.columns = []*column{{Column: Column{"t", "c"}, owned: byCell}}
	look := func() error { _, err := m.look(t.Context()); return err }
	if err := look(); err != nil {
		t.Fatal(err)
	}
	deaf, d.fail = true, 1
	if err := look(); err == nil {
		t.Fatal("the write has not failed")
	}
	for range 5 {
		if err := look(); err != nil {
			t.Fatal(err)
		}
	}
	seen, err := d.Workers(t.Context())
	if err != nil || len(seen.Live) != 1 {
		t.Fatal(seen, err)
	}
	if seen.Live[0].Owns != "" {
		t.Errorf("after 5 looks the others still take the deaf worker for an owner: %q", seen.Live[0].Owns)
	}
}
