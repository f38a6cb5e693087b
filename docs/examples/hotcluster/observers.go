package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

var (
	// Observed; the cluster's key, where real systems have a hash.
	content = percolator.String("documents", "content")
	placed  = percolator.String("documents", "cluster")   // the cluster that lists the document now
	members = percolator.JSON[[]string]("clusters", "in") // the cluster's documents, sorted
	poke    = percolator.Bytes("clusters", "poke")        // weak: the cluster's list is out of date
	// A row for each document of a cluster, "cluster/document".
	member = percolator.String("members", "document")
)

var schema = &percolator.Schema{Tables: []percolator.Table{
	{Name: "documents", Observed: []string{content.Name}},
	{Name: "clusters", Weak: []string{poke.Name}},
	{Name: "members"},
}}

// version is one way to keep the lists.
type version struct {
	name     string
	register func(r *observers.Registry, rewritten *atomic.Int64)
}

var versions = []version{{"direct", direct}, {"split in two", split}}

// direct has the observer of a document change the lists itself.
func direct(r *observers.Registry, rewritten *atomic.Int64) {
	observers.Observe(r, "cluster", content, func(ctx context.Context, tx *percolator.Txn, ch observers.Change, now string) error {
		document := ch.Cell.Row
		before, err := placed.GetOr(ctx, tx, document, "")
		if err != nil || before == now {
			return err
		}
		for _, key := range []string{before, now} {
			if key == "" {
				continue
			}
			list, err := members.GetOr(ctx, tx, key, nil)
			if err != nil {
				return err
			}
			// This cell is the hotspot.
			if err := members.Set(tx, key, listed(list, document, key == now)); err != nil {
				return err
			}
			rewritten.Add(1)
		}
		return placed.Set(tx, document, now)
	})
	// The schema has a weak column, so it must have an observer. No one notifies it in this
	// version.
	observers.Observe(r, "nothing", poke, func(context.Context, *percolator.Txn, observers.Change, []byte) error { return nil })
}

// split has it leave a note and notify the cluster, for which another observer does the work.
func split(r *observers.Registry, rewritten *atomic.Int64) {
	observers.Observe(r, "place", content, func(ctx context.Context, tx *percolator.Txn, ch observers.Change, now string) error {
		document := ch.Cell.Row
		before, err := placed.GetOr(ctx, tx, document, "")
		if err != nil || before == now {
			return err
		}
		if before != "" {
			err = errors.Join(member.Delete(tx, before+"/"+document), poke.Notify(tx, before))
		}
		return errors.Join(err, member.Set(tx, now+"/"+document, document), poke.Notify(tx, now), placed.Set(tx, document, now))
	})
	// The list is derived from what the first observer has left, not changed by what it was told:
	// so it does not matter how many notifications a run answers, nor whether two runs answer one.
	observers.Observe(r, "list", poke, func(ctx context.Context, tx *percolator.Txn, ch observers.Change, _ []byte) error {
		var list []string
		for e, err := range member.Scan(ctx, tx, percolator.Prefix(ch.Cell.Row+"/")) {
			if err != nil {
				return err
			}
			list = append(list, e.Value)
		}
		rewritten.Add(1)
		return members.Set(tx, ch.Cell.Row, list)
	}, observers.Collapse(collapse))
}

// collapse is how long a worker gathers notifications of a cluster before it builds the list.
// Without it the split helps just as well; with it the list is built less often.
const collapse = 50 * time.Millisecond

// listed returns the sorted list with the document, or without it.
func listed(list []string, document string, in bool) []string {
	i, found := slices.BinarySearchFunc(list, document, strings.Compare)
	switch {
	case in && !found:
		return slices.Insert(list, i, document)
	case !in && found:
		return slices.Delete(list, i, i+1)
	}
	return list
}
