package docstore_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"strings"
	"time"

	"gocloud.dev/docstore"
	"gocloud.dev/docstore/driver"
	"gocloud.dev/docstore/memdocstore"

	"github.com/gopercolator/percolator/percolator"
)

// What the fields of a document, changes of some and filters mean is the same for all stores. Here
// the CDK's driver for memory says it: it holds for a moment what a transaction reads or writes.

// inMemory returns documents in memory. Their revisions are fields like others there.
func (c *collection) inMemory(ctx context.Context, docs ...any) (*docstore.Collection, error) {
	opts := &memdocstore.Options{RevisionField: "none"}
	open := func() (*docstore.Collection, error) { return memdocstore.OpenCollection(keyField, opts) }
	if c.keyOf != nil {
		open = func() (*docstore.Collection, error) { return memdocstore.OpenCollectionWithKeyFunc(c.keyOf, opts) }
	}
	memory, err := open()
	if err != nil {
		return nil, err
	}
	c.t.Cleanup(func() { _ = memory.Close() })
	for _, doc := range docs {
		if err := memory.Put(ctx, doc); err != nil {
			return nil, err
		}
	}
	return memory, nil
}

// encoded returns the fields of a document after changes. The types of their values are bool,
// int64, float64, string, []byte, time.Time, []any and map[string]any.
func (c *collection) encoded(ctx context.Context, doc any, mods ...driver.Mod) (map[string]any, error) {
	memory, err := c.inMemory(ctx, doc)
	if err != nil {
		return nil, err
	}
	if changes := (docstore.Mods{}); len(mods) > 0 {
		for _, m := range mods {
			changes[path(m.FieldPath)] = m.Value
		}
		if err := memory.Update(ctx, doc, changes); err != nil {
			return nil, err
		}
	}
	fields := map[string]any{}
	return fields, memory.Query().Get(ctx).Next(ctx, fields)
}

// decode fills a document with the fields at some paths; without paths with all.
func (c *collection) decode(ctx context.Context, fields map[string]any, doc driver.Document, paths [][]string) error {
	memory, err := c.inMemory(ctx, fields)
	if err != nil {
		return err
	}
	return memory.Get(ctx, doc.Origin, pathsOf(paths)...)
}

// RunGetQuery reads the whole table at one snapshot.
func (c *collection) RunGetQuery(ctx context.Context, q *driver.Query) (driver.DocumentIterator, error) {
	if q.BeforeQuery != nil {
		if err := q.BeforeQuery(c.As); err != nil {
			return nil, err
		}
	}
	var memory *docstore.Collection
	err := c.client().View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		docs, err := c.read(ctx, s, percolator.All())
		if err == nil {
			memory, err = c.inMemory(ctx, docs...)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	query := memory.Query()
	for _, f := range q.Filters {
		query = query.Where(path(f.FieldPath), f.Op, f.Value)
	}
	if q.OrderByField != "" {
		direction := docstore.Descending
		if q.OrderAscending {
			direction = docstore.Ascending
		}
		query = query.OrderBy(q.OrderByField, direction)
	}
	if q.Offset > 0 {
		query = query.Offset(q.Offset)
	}
	if q.Limit > 0 {
		query = query.Limit(q.Limit)
	}
	return iterator{query.Get(ctx, pathsOf(q.FieldPaths)...)}, nil
}

type iterator struct{ *docstore.DocumentIterator }

func (it iterator) Next(ctx context.Context, doc driver.Document) error {
	return it.DocumentIterator.Next(ctx, doc.Origin)
}

func path(names []string) docstore.FieldPath { return docstore.FieldPath(strings.Join(names, ".")) }

func pathsOf(all [][]string) (paths []docstore.FieldPath) {
	for _, names := range all {
		paths = append(paths, path(names))
	}
	return paths
}

// stored is a value of a field as gob takes it.
type stored struct{ Value any }

func init() {
	gob.Register(map[string]any{})
	gob.Register([]any{})
	gob.Register(time.Time{})
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(stored{v})
	return b.Bytes(), err
}

func unmarshal(b []byte) (any, error) {
	var s stored
	err := gob.NewDecoder(bytes.NewReader(b)).Decode(&s)
	return s.Value, err
}
