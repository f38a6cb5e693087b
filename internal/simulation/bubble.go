package simulation

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
)

var initTesting = sync.OnceFunc(testing.Init)

// inBubble calls f in a bubble of virtual time, in any program. It returns f's error, or what ended
// the bubble.
func inBubble(name string, f func() error) (err error) {
	initTesting()
	err = errors.New("the bubble ended early")
	run := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			err = f()
		})
	}
	match := func(pattern, s string) (bool, error) { return true, nil }
	if !testing.RunTests(match, []testing.InternalTest{{Name: name, F: run}}) && err == nil {
		err = fmt.Errorf("the bubble of %s failed", name)
	}
	return err
}
