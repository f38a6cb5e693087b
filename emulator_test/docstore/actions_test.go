package docstore_test

import (
	"context"
	"errors"
	"sync"

	"gocloud.dev/docstore/driver"

	"github.com/gopercolator/percolator/percolator"
)

// RunActions reads at one snapshot, writes each document in a transaction of its own, all at once,
// and the atomic writes in one.
func (c *collection) RunActions(ctx context.Context, actions []*driver.Action, opts *driver.RunActionsOptions) driver.ActionListError {
	errs := make([]error, len(actions))
	if opts.BeforeDo != nil {
		if err := opts.BeforeDo(c.As); err != nil {
			fail(actions, errs, err)
			return driver.NewActionListError(errs)
		}
	}
	before, beside, writes, atomic, after := driver.GroupActions(actions)
	c.get(ctx, append(before, beside...), errs)
	var all sync.WaitGroup
	for _, a := range writes {
		all.Go(func() { c.write(ctx, []*driver.Action{a}, errs) })
	}
	all.Wait()
	c.write(ctx, atomic, errs)
	c.get(ctx, after, errs)
	return driver.NewActionListError(errs)
}

// get reads documents at one snapshot.
func (c *collection) get(ctx context.Context, actions []*driver.Action, errs []error) {
	if len(actions) == 0 {
		return
	}
	err := c.client().View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for _, a := range actions {
			doc, err := c.find(ctx, s, a.Key.(string))
			if err == nil {
				err = c.decode(ctx, doc, a.Doc, a.FieldPaths)
			}
			errs[a.Index] = err
		}
		return nil
	})
	if err != nil {
		fail(actions, errs, err)
	}
}

// write makes changes in one transaction: all of them or none.
func (c *collection) write(ctx context.Context, actions []*driver.Action, errs []error) {
	if len(actions) == 0 {
		return
	}
	for _, a := range actions {
		if a.Key == nil {
			a.Key = driver.UniqueString()
			if err := a.Doc.SetField(keyField, a.Key); err != nil {
				fail(actions, errs, err)
				return
			}
		}
	}
	ts, err := c.client().Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		for _, a := range actions {
			if err := c.apply(ctx, tx, a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		fail(actions, errs, err)
		return
	}
	for _, a := range actions {
		if a.Kind != driver.Delete && a.Doc.HasField(c.revisionField) {
			errs[a.Index] = a.Doc.SetField(c.revisionField, int64(ts))
		}
	}
}

// apply buffers one change.
func (c *collection) apply(ctx context.Context, tx *percolator.Txn, a *driver.Action) error {
	key := a.Key.(string)
	if a.Kind == driver.Create {
		doc, err := c.encoded(ctx, a.Doc.Origin)
		if err != nil {
			return err
		}
		return c.store(tx, key, nil, doc, tx.Insert)
	}
	old, err := c.find(ctx, tx, key)
	if errors.Is(err, percolator.ErrNotFound) && (a.Kind == driver.Put || a.Kind == driver.Delete) {
		err = nil // there need be none
	}
	if err != nil {
		return err
	}
	given, _ := a.Doc.GetField(c.revisionField) // none if there is no such field
	if is := old[c.revisionField]; given != nil && is != nil && given != is {
		return errRevision
	}
	var doc map[string]any
	switch a.Kind {
	case driver.Delete:
		return c.store(tx, key, old, nil, nil)
	case driver.Update:
		doc, err = c.encoded(ctx, old, a.Mods...)
	default:
		doc, err = c.encoded(ctx, a.Doc.Origin)
	}
	if err != nil {
		return err
	}
	return c.store(tx, key, old, doc, tx.Set)
}

// fail gives all actions the error of their transaction.
func fail(actions []*driver.Action, errs []error, err error) {
	for _, a := range actions {
		errs[a.Index] = err
	}
}
