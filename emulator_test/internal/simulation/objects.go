package simulation

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/backup"
)

// objects is an object store in memory.
type objects struct {
	mu   sync.Mutex
	data map[string][]byte
}

// objectsOf are objects as a process reaches them.
type objectsOf struct {
	*objects
	w *world
	p *process
}

var _ backup.Store = objectsOf{}

// objectTakes is the time that a call of an object store takes.
const objectTakes = 5 * time.Millisecond

// call makes a call with its fate: nothing of a dead process arrives.
func (o objectsOf) call(ctx context.Context, name string, do func()) error {
	r := o.w.dice.next("objects", o.p.name, name)
	f := o.w.tally.oneOf(r, o.w.oracleRate(), objectRefused, objectDoubtful)
	err := retry.Sleep(ctx, latency(r, objectTakes))
	if err == nil {
		err = o.p.gate.pass(ctx)
	}
	if err == nil && f == objectRefused {
		err = errors.New("the object store refuses")
	}
	if err != nil {
		return err
	}
	o.mu.Lock()
	do()
	o.mu.Unlock()
	if err := retry.Sleep(ctx, latency(r, objectTakes)); err != nil {
		return err
	}
	if f == objectDoubtful {
		return errors.New("the object store does not answer")
	}
	return o.p.gate.pass(ctx)
}

func (o objectsOf) Put(ctx context.Context, name string, data []byte) error {
	return o.call(ctx, name, func() { o.data[name] = bytes.Clone(data) })
}

func (o objectsOf) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	var data []byte
	var there bool
	if err := o.call(ctx, name, func() { data, there = o.data[name] }); err != nil {
		return nil, err
	}
	if !there {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (o objectsOf) List(ctx context.Context, prefix string) (names []string, err error) {
	err = o.call(ctx, prefix, func() {
		for _, name := range slices.Sorted(maps.Keys(o.data)) {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
	})
	return names, err
}

func (o objectsOf) Delete(ctx context.Context, name string) error {
	return o.call(ctx, name, func() { delete(o.data, name) })
}
