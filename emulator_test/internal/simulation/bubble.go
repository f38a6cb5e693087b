package simulation

import (
	"errors"
	"flag"
	"fmt"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
)

// Main calls f with what Run needs, in a program that is no test, and ends the program. Bubbles of
// virtual time are there for tests only.
func Main(f func(t *testing.T)) {
	testing.Init()
	if err := flag.CommandLine.Parse([]string{"-test.timeout=0"}); err != nil {
		panic(err)
	}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "simulation", F: f}}, nil, nil)
}

// inBubble calls f in a bubble of virtual time. It returns f's error, or what ended the bubble.
func inBubble(t *testing.T, name string, seed uint64, f func() error) (err error) {
	err = errors.New("the bubble ended early")
	ok := t.Run(name, func(t *testing.T) {
		if testing.Testing() { // a seed decides sessions' IDs in tests only
			cryptotest.SetGlobalRandom(t, seed)
		}
		synctest.Test(t, func(*testing.T) { err = f() })
	})
	if !ok && err == nil {
		err = fmt.Errorf("the bubble of %s failed", name)
	}
	return err
}
