package docstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"gocloud.dev/docstore"
	"gocloud.dev/docstore/driver"
	"gocloud.dev/gcerrors"

	"github.com/gopercolator/percolator/percolator"
)

// collection keeps each document in a row and each of its fields in a column. Every write of a
// document writes its head, so of two at the same time one conflicts.
type collection struct {
	t             *testing.T
	client        func() *percolator.Client // another one each time
	table         string
	keyOf         func(docstore.Document) any // nil: the key is a field
	revisionField string
}

const (
	head        = "head"    // its commit timestamp is the document's revision
	revised     = "revised" // its value, if the document shows its revision
	fieldPrefix = "field:"
)

var errRevision = errors.New("the document has another revision")

// Key returns the key of a document, which Create may lack if it is a field.
func (c *collection) Key(doc driver.Document) (any, error) {
	key, _ := doc.GetField(keyField) // none if there is no such field
	if c.keyOf != nil {
		key = c.keyOf(doc.Origin)
	}
	if _, ok := key.(string); !ok && key != nil || c.keyOf != nil && key == "" {
		return nil, fmt.Errorf("%w: the key is not a string or is missing", percolator.ErrInvalidArgument)
	}
	return key, nil
}

// read returns the documents in some rows, with their revisions, in the order of their keys. Each
// is a map[string]any.
func (c *collection) read(ctx context.Context, r percolator.Reader, rows percolator.Range) (docs []any, err error) {
	var doc map[string]any
	row := ""
	for e, err := range r.Scan(ctx, c.table, rows) {
		if err != nil {
			return nil, err
		}
		if e.Cell.Row != row {
			row, doc = e.Cell.Row, map[string]any{}
			docs = append(docs, doc)
		}
		if field, ok := strings.CutPrefix(e.Cell.Column, fieldPrefix); ok {
			if doc[field], err = unmarshal(e.Value); err != nil {
				return nil, err
			}
		} else if string(e.Value) == revised {
			doc[c.revisionField] = int64(e.CommitTS)
		}
	}
	return docs, nil
}

// find returns the document with a key.
func (c *collection) find(ctx context.Context, r percolator.Reader, key string) (map[string]any, error) {
	docs, err := c.read(ctx, r, percolator.Row(key))
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 {
		return nil, percolator.ErrNotFound
	}
	return docs[0].(map[string]any), nil
}

// store makes the row of a key hold a document, or none, and nothing else of the one that it held.
// put writes the head.
func (c *collection) store(tx *percolator.Txn, key string, old, doc map[string]any, put func(percolator.Cell, []byte) error) error {
	cell := percolator.Cell{Table: c.table, Row: key, Column: head}
	var err error
	if _, shows := doc[c.revisionField]; doc == nil {
		err = tx.Delete(cell)
	} else if shows {
		err = put(cell, []byte(revised))
	} else {
		err = put(cell, nil)
	}
	for field := range old {
		if _, stays := doc[field]; !stays && field != c.revisionField {
			cell.Column = fieldPrefix + field
			err = errors.Join(err, tx.Delete(cell))
		}
	}
	for field, v := range doc {
		if field != c.revisionField {
			cell.Column = fieldPrefix + field
			value, failed := marshal(v)
			err = errors.Join(err, failed, tx.Set(cell, value))
		}
	}
	return err
}

func (c *collection) RevisionField() string { return c.revisionField }

func (c *collection) RevisionToBytes(revision any) ([]byte, error) {
	return fmt.Append(nil, revision), nil
}

func (c *collection) BytesToRevision(b []byte) (any, error) {
	return strconv.ParseInt(string(b), 10, 64)
}

func (c *collection) ErrorCode(err error) gcerrors.ErrorCode {
	switch {
	case errors.Is(err, percolator.ErrNotFound):
		return gcerrors.NotFound
	case errors.Is(err, percolator.ErrExists):
		return gcerrors.AlreadyExists
	case errors.Is(err, errRevision):
		return gcerrors.FailedPrecondition
	case errors.Is(err, percolator.ErrInvalidArgument), errors.Is(err, percolator.ErrTooLarge):
		return gcerrors.InvalidArgument
	}
	return gcerrors.Code(err)
}

func (c *collection) QueryPlan(*driver.Query) (string, error) { return "", nil }
func (c *collection) As(any) bool                             { return false }
func (c *collection) ErrorAs(error, any) bool                 { return false }
func (c *collection) Close() error                            { return nil }
