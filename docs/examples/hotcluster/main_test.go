package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Both versions end with the same lists, and splitting the observer in two takes most of the
// conflicts away.
func TestSplittingAHotspot(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const documents = 45
	want := map[string][]string{}
	for i := range documents {
		key := hot
		if i%3 == 0 {
			key = other
		}
		want[key] = append(want[key], fmt.Sprintf("document-%05d", i))
	}
	var results []*result
	for _, v := range versions {
		r, err := run(ctx, v, documents, 4)
		if err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		results = append(results, r)
		for _, key := range []string{hot, other} {
			if !slices.Equal(r.clusters[key], want[key]) {
				t.Errorf("%s: cluster %q lists %d documents, want %d", v.name, key, len(r.clusters[key]), len(want[key]))
			}
		}
		if len(r.clusters) != len(want) || r.changes != documents+documents/3 {
			t.Errorf("%s: %d clusters after %d changes", v.name, len(r.clusters), r.changes)
		}
	}
	var table bytes.Buffer
	if err := printTable(&table, results); err != nil || strings.Count(table.String(), "\n") != 3 {
		t.Fatalf("%v:\n%s", err, &table)
	}
	t.Logf("\n%s", &table)
	direct, split := results[0], results[1]
	if direct.conflicts == 0 {
		t.Error("there is no hotspot")
	}
	if split.rate() > direct.rate()/4 {
		t.Errorf("%.3f conflicts per commit split in two, %.3f directly", split.rate(), direct.rate())
	}
}
