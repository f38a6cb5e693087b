package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// position records which chunks have been restored. It is stored in the restored instance under the
// name of the backup and the commit timestamp of this restore, so that a restore into tables that
// were emptied since does not believe it. Losing it costs only time, since chunks may be written
// again.
type position struct {
	admin    *admin.Admin
	name     string
	manifest *Manifest

	turn   *semaphore.Weighted // for storing it, without mu
	stored []byte              // as far as is known; nil: nothing

	mu    sync.Mutex
	at    positionRecord
	shown *tally
}

// positionRecord is the stored form. Also grows while one chunk is slower than those after it.
type positionRecord struct {
	Seq  int64 `json:"seq"`  // makes each differ from all before it
	Next int   `json:"next"` // all chunks before it are done
	Also []int `json:"also,omitempty"`
}

func (r *positionRecord) done(i int) bool { return i < r.Next || slices.Contains(r.Also, i) }

func (r *positionRecord) finish(i int) {
	r.Seq++
	r.Also = append(slices.Clone(r.Also), i)
	for slices.Contains(r.Also, r.Next) {
		r.Also = slices.DeleteFunc(r.Also, func(j int) bool { return j == r.Next })
		r.Next++
	}
	slices.Sort(r.Also)
}

// maxAlso bounds what is stored while one chunk is slow. The chunks left out may be written again.
const maxAlso = 1000

func (r positionRecord) bounded() positionRecord {
	r.Also = r.Also[:min(len(r.Also), maxAlso)]
	return r
}

func openPosition(ctx context.Context, a *admin.Admin, m *Manifest, commit tso.Timestamp, show func(Progress)) (*position, error) {
	p := &position{admin: a, name: fmt.Sprintf("restore:%s:%d", m.ID, commit), manifest: m, turn: semaphore.NewWeighted(1)}
	p.shown = newTally(len(m.Chunks), m.SnapshotTime, show)
	stored, err := a.LoadPosition(ctx, p.name)
	if err != nil || stored == nil {
		return p, err
	}
	if err := json.Unmarshal(stored, &p.at); err != nil {
		return nil, fmt.Errorf("backup: %w: the position %q of the restore cannot be read", percolator.ErrCorrupt, p.name)
	}
	p.stored, p.shown.at.Resumed = stored, true
	for i := range m.Chunks {
		if p.at.done(i) {
			p.shown.count(&m.Chunks[i], true)
		}
	}
	return p, nil
}

// tables lists the tables that this restore has written to.
func (p *position) tables() (names []string) {
	for i, c := range p.manifest.Chunks {
		if p.at.done(i) && !slices.Contains(names, c.Table) {
			names = append(names, c.Table)
		}
	}
	return names
}

func (p *position) done(i int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at.done(i)
}

// finish stores that chunk i is done.
func (p *position) finish(ctx context.Context, i int) error {
	if err := p.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.turn.Release(1)
	p.mu.Lock()
	next := p.at
	p.mu.Unlock()
	next.finish(i)
	b, err := json.Marshal(next.bounded())
	if err != nil {
		return err
	}
	if err := p.save(ctx, b); err != nil {
		return err
	}
	p.stored = b
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = next
	p.shown.add(&p.manifest.Chunks[i], true)
	return nil
}

// save replaces the stored position. When the answer is lost, it reads the position back.
func (p *position) save(ctx context.Context, next []byte) error {
	err := p.admin.SaveLoadPosition(ctx, p.name, p.stored, next)
	if err == nil {
		return nil
	}
	stored, lerr := p.admin.LoadPosition(ctx, p.name)
	switch {
	case lerr == nil && bytes.Equal(stored, next):
		return nil
	case errors.Is(err, percolator.ErrConflict):
		return fmt.Errorf("backup: another restore of this backup is at work: %w", err)
	}
	return err
}
