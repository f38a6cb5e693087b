package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/percolator"
)

var (
	text   = percolator.String("notes", "text")           // observed: see schema.yaml
	tagged = percolator.JSON[[]string]("notes", "tagged") // the tags that the note stands under
)

// tag puts a note under its tags. It compares with what it wrote last time and writes the
// difference, so that it may run once or several times for a change, or once for several changes.
func tag(ctx context.Context, tx *percolator.Txn, note string, now []string) error {
	before, err := tagged.GetOr(ctx, tx, note, nil)
	if err != nil {
		return err
	}
	for _, t := range before {
		if !slices.Contains(now, t) {
			err = errors.Join(err, tx.Delete(percolator.Cell{Table: "tags", Row: t, Column: note}))
		}
	}
	for _, t := range now {
		if !slices.Contains(before, t) {
			err = errors.Join(err, tx.Set(percolator.Cell{Table: "tags", Row: t, Column: note}, nil))
		}
	}
	return errors.Join(err, tagged.Set(tx, note, now))
}

// tagsOf returns the words of a text that begin with #, in order and without repetition.
func tagsOf(text string) []string {
	var tags []string
	for _, word := range strings.Fields(text) {
		if t, ok := strings.CutPrefix(word, "#"); ok && t != "" && !slices.Contains(tags, t) {
			tags = append(tags, t)
		}
	}
	return tags
}
