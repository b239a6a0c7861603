package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"io/fs"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nonroot is the user of the image: any number that is not root and has no name on the host.
const nonroot = "65532:65532"

// repository is the name under which the tarballs are loaded.
const repository = "skald"

// image assembles the image from an empty base: the program, which carries its own zone data, CA certificates and a
// user. It is written as a layout with both architectures, for skopeo and registries, and as one tarball each, for
// docker load and podman load.
func (r release) image(context.Context) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		img, err := r.imageOf(p)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
		tag, err := name.NewTag(repository + ":" + r.version)
		if err != nil {
			return err
		}
		file := r.path("skald_" + r.version + "_image_" + p.arch + ".tar")
		if err := tarball.WriteToFile(file, tag, img); err != nil {
			return err
		}
	}
	// One entry, the index of both: programs that copy a layout want one, or the name of one.
	one := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add:        index,
		Descriptor: v1.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": r.version}},
	})
	_, err := layout.Write(r.path("skald_"+r.version+"_oci"), one)
	return err
}

func (r release) imageOf(p platform) (v1.Image, error) {
	files := []packed{
		{name: "etc", mode: fs.ModeDir | 0o755},
		{name: "etc/group", content: []byte("root:x:0:\nskald:x:65532:\n"), mode: 0o644},
		{name: "etc/passwd", content: []byte("root:x:0:0:root:/:/sbin/nologin\n" +
			"skald:x:65532:65532:Skald:/:/sbin/nologin\n"), mode: 0o644},
		{name: "etc/ssl", mode: fs.ModeDir | 0o755},
		{name: "etc/ssl/certs", mode: fs.ModeDir | 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", content: authorities(), mode: 0o644},
		{name: "skald", from: r.built(p), mode: 0o755},
		{name: "tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
	var tar bytes.Buffer
	if err := writeTar(&tar, "", files, r.at); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(tar.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer),
	)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{
		Layer:     layer,
		MediaType: types.OCILayer,
		History:   v1.History{Created: v1.Time{Time: r.at}, CreatedBy: "make release"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: p.arch, OS: p.os, Created: v1.Time{Time: r.at},
		RootFS: rootFS(img), History: []v1.History{{Created: v1.Time{Time: r.at}, CreatedBy: "make release"}},
		Config: v1.Config{
			Entrypoint:   []string{"/skald"},
			Cmd:          []string{"serve"},
			User:         nonroot,
			WorkingDir:   "/",
			Env:          []string{"PATH=/", "SKALD_LISTEN_ADDR=0.0.0.0:8080"},
			ExposedPorts: map[string]struct{}{"8080/tcp": {}},
			Healthcheck: &v1.HealthConfig{
				Test: []string{"CMD", "/skald", "health"}, Interval: 10 * time.Second, Timeout: 5 * time.Second,
				StartPeriod: time.Minute,
			},
			Labels: map[string]string{
				"org.opencontainers.image.title":       "Skald",
				"org.opencontainers.image.description": "Sagas, dead letters and job runs on PostgreSQL",
				"org.opencontainers.image.version":     r.version,
				"org.opencontainers.image.revision":    r.commit,
				"org.opencontainers.image.created":     r.at.Format(time.RFC3339),
				"org.opencontainers.image.source":      "https://github.com/skald-saga/skald",
				"org.opencontainers.image.licenses":    "Apache-2.0",
			},
		},
	})
}

func rootFS(img v1.Image) v1.RootFS {
	file, err := img.ConfigFile()
	if err != nil {
		panic(err) // of an image in memory
	}
	return file.RootFS
}

// authorities is Mozilla's list of certificate authorities, as the version of the module in go.mod has it: that of the
// build machine would make the image depend on it.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
	}
	return out.Bytes()
}
