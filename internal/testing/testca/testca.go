// Package testca makes certificates for tests.
package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// CA is an authority that signs certificates.
type CA struct {
	PEM  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Cert is a certificate with its private key.
type Cert struct {
	PEM, Key []byte
	Serial   *big.Int
}

var serials atomic.Int64

// New makes an authority.
func New(t testing.TB) *CA {
	t.Helper()
	template := template("authority", time.Now().Add(time.Hour))
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	cert, err := x509.ParseCertificate(der)
	check(t, err)
	return &CA{PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), cert: cert, key: key}
}

// Issue makes a certificate for host, a name or an address, that expires at notAfter.
// Servers and clients can use it.
func (ca *CA) Issue(t testing.TB, host string, notAfter time.Time) Cert {
	t.Helper()
	return ca.sign(t, host, template(host, notAfter))
}

// IssueAhead is Issue of a certificate that is valid from a time on, for an hour.
func (ca *CA) IssueAhead(t testing.TB, host string, notBefore time.Time) Cert {
	t.Helper()
	template := template(host, notBefore.Add(time.Hour))
	template.NotBefore = notBefore
	return ca.sign(t, host, template)
}

func (ca *CA) sign(t testing.TB, host string, template *x509.Certificate) Cert {
	t.Helper()
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	check(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	return Cert{
		PEM:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		Serial: template.SerialNumber,
	}
}

func template(name string, notAfter time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: notAfter,
	}
}

// Write replaces the file name in dir, as an operator should, by renaming, and returns
// its path.
func Write(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	check(t, os.WriteFile(path+".new", content, 0o600))
	check(t, os.Rename(path+".new", path))
	return path
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
