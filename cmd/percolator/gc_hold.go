package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// holdJSON is a hold in the output for programs.
type holdJSON struct {
	ID        string        `json:"id"`
	Timestamp tso.Timestamp `json:"timestamp"` // what a snapshot here or later reads is kept
	Time      time.Time     `json:"time"`
	Expires   time.Time     `json:"expires"`
	Reason    string        `json:"reason"`
}

func newHoldJSON(h admin.Hold) holdJSON {
	return holdJSON{h.ID, h.Timestamp, h.Timestamp.Time().UTC(), h.Expires.Time().UTC(), h.Reason}
}

func newHoldsJSON(holds []admin.Hold) []holdJSON {
	out := []holdJSON{}
	for _, h := range holds {
		out = append(out, newHoldJSON(h))
	}
	return out
}

func printHolds(w io.Writer, holds []holdJSON) error {
	if len(holds) == 0 {
		_, err := fmt.Fprintln(w, "no holds")
		return err
	}
	t := newTable(w, "ID", "TIMESTAMP", "TIME", "EXPIRES", "REASON")
	for _, h := range holds {
		t.row(orDash(h.ID), int64(h.Timestamp), h.Time.Format(time.RFC3339), h.Expires.Format(time.RFC3339), orDash(h.Reason))
	}
	return t.flush()
}

// findHold looks a hold up by its id.
func findHold(ctx context.Context, c *percolator.Client, id string) (admin.Hold, error) {
	holds, err := admin.New(c).Holds(ctx)
	if err != nil {
		return admin.Hold{}, err
	}
	at := slices.IndexFunc(holds, func(h admin.Hold) bool { return h.ID == id })
	if at < 0 {
		return admin.Hold{}, fmt.Errorf("hold %s: %w: it was released, or has expired; percolator gc hold ls lists them", shown(id), percolator.ErrNotFound)
	}
	return holds[at], nil
}

// holdArg is the Args of a command that takes a hold.
var holdArg = takes(1, 1, "the id of a hold")

func checkTTL(ttl time.Duration) error {
	if ttl <= 0 {
		return usagef("--ttl %v is not above 0", ttl)
	}
	return nil
}
