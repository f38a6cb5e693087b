package backup

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// verifyConcurrency is how many chunks Verify has in memory.
const verifyConcurrency = 4

// Verification is what Verify found.
type Verification struct {
	Manifest *Manifest
	Verified Counts
	Chunks   int
	Problems []Problem // by name of the object
}

// Problem is an object that is missing or damaged.
type Problem struct {
	Object string `json:"object"`
	Text   string `json:"text"`
}

// Verify reads a whole backup and compares it with its checksums and counts. It returns what it
// finds in the Verification, and an error if it could not look (ErrIncomplete: there is no
// manifest; ErrDamaged: the manifest itself; percolator.ErrSchemaMismatch: a program that stores
// schemas in another format has written it). progress may be nil. Memory: four chunks.
func Verify(ctx context.Context, s Store, progress func(Progress)) (*Verification, error) {
	m, err := ReadManifest(ctx, s)
	if err != nil {
		return nil, err
	}
	v := &Verification{Manifest: m}
	if err := m.checkContent(); err != nil {
		return nil, err
	}
	texts := make([]string, len(m.Chunks))
	shown := newTally(len(m.Chunks), m.SnapshotTime, progress)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(verifyConcurrency)
	for i := range m.Chunks {
		g.Go(func() error {
			c := &m.Chunks[i]
			err := m.verifyChunk(ctx, s, i)
			if err != nil && !errors.Is(err, ErrDamaged) {
				return err
			}
			if err != nil {
				texts[i], c = err.Error(), new(Chunk) // counts nothing
			}
			shown.add(c, true)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, text := range texts {
		if text != "" {
			v.Problems = append(v.Problems, Problem{m.Chunks[i].Name, text})
		}
	}
	v.Verified, v.Chunks = shown.at.Counts, len(m.Chunks)-len(v.Problems)
	if len(v.Problems) == 0 && v.Verified != m.Total {
		v.Problems = append(v.Problems, Problem{manifestName, "its total is not the sum of its chunks"})
	}
	return v, nil
}

// checkContent finds what no backup contains, and what a restore would notice only half-way.
func (m *Manifest) checkContent() error {
	damaged := func(format string, args ...any) error {
		return fmt.Errorf("backup: %s: %w: %s", manifestName, ErrDamaged, fmt.Sprintf(format, args...))
	}
	schema, err := m.DecodeSchema()
	switch {
	case errors.Is(err, percolator.ErrSchemaMismatch): // another program's
		return fmt.Errorf("backup: %s: %w", manifestName, err)
	case err != nil:
		return damaged("its schema: %v", err)
	}
	tables, names := map[string]bool{}, map[string]bool{}
	for _, t := range schema.Tables {
		tables[t.Name] = true
	}
	for _, t := range m.Tables {
		if !tables[t.Name] {
			return damaged("table %q is not in its schema", t.Name)
		}
	}
	if len(m.Tables) != len(tables) {
		return damaged("it lists %d of %d tables", len(m.Tables), len(tables))
	}
	for _, c := range m.Chunks {
		if !tables[c.Table] {
			return damaged("chunk %q is of table %q, which is not in its schema", c.Name, c.Table)
		}
		if names[c.Name] {
			return damaged("chunk %q is listed twice", c.Name)
		}
		names[c.Name] = true
	}
	return nil
}

// verifyChunk checks one chunk.
func (m *Manifest) verifyChunk(ctx context.Context, s Store, i int) error {
	c := &m.Chunks[i]
	data, err := readChunk(ctx, s, c)
	if err != nil {
		return err
	}
	return c.eachRow(data, func(model.ExportedRow) error { return ctx.Err() })
}

// Summary describes what is in a store, complete or not.
type Summary struct {
	Complete bool
	Plan     Plan
	Manifest *Manifest // nil unless complete
	Ranges   int       // of rows
	Progress Progress  // of one that is not complete
}

// Describe tells what is in a store, without reading chunks. ErrIncomplete: no backup was started
// there.
func Describe(ctx context.Context, s Store) (*Summary, error) {
	m, err := ReadManifest(ctx, s)
	if err == nil {
		return &Summary{Complete: true, Plan: m.Plan, Manifest: m}, nil
	}
	if !errors.Is(err, ErrIncomplete) {
		return nil, err
	}
	p, err := readPlan(ctx, s)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, fmt.Errorf("backup: %w: neither %s nor %s", ErrIncomplete, manifestName, planName)
	}
	found, err := readProgress(ctx, s, p)
	if err != nil {
		return nil, err
	}
	return &Summary{Plan: p.Plan, Ranges: len(p.Ranges), Progress: tallyOf(p, found, nil).at}, nil
}
