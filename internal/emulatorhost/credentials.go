package emulatorhost

import (
	"os"
	"strings"
)

// noCredentials takes the place of the text of Google's clients, which do not know that an emulator
// may be meant.
type noCredentials struct{ err error }

func (noCredentials) Error() string {
	return "no credentials of Google Cloud: gcloud auth application-default login gets them, and for an emulator set " + Bigtable + ", as percolator dev prints it"
}

func (e noCredentials) Unwrap() error { return e.err }

// Credentials says of an error of a client that finds no credentials what to do.
func Credentials(err error) error {
	if err == nil || os.Getenv(Bigtable) != "" || !strings.Contains(err.Error(), "could not find default credentials") {
		return err
	}
	return noCredentials{err}
}
