package main

import (
	"slices"
	"testing"
)

// A process that runs an episode learns which mutant it is, and nothing else of the environment.
func TestMutantReachesEpisodes(t *testing.T) {
	t.Setenv(mutant, "some_mutant")
	t.Setenv("PERCOLATOR_OTHER", "1")
	if got, want := (&flags{scheduler: seeded}).environ(), append(slices.Clone(repeats), mutant+"=some_mutant"); !slices.Equal(got, want) {
		t.Errorf("an episode gets %q, want %q", got, want)
	}
}
