package simulation

import "testing"

func TestEpisodeWithoutFaults(t *testing.T) {
	r, err := Run(t, Config{Seed: 1, Transactions: 2000, Faults: None})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	t.Log(r.Kinds)
	if r.Failed() {
		t.Error("failed")
	}
}
