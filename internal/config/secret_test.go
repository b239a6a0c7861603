package config

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"
)

type xmlHolder struct{ S Secret }

func TestSecretsAreNeverShown(t *testing.T) {
	const value = "hunter2"
	secret := Secret(value)
	config := Default(Dev)
	config.Database.Password = secret
	config.Database.URL = "postgres://u:" + value + "@db/x"

	logged := func(handler func(*bytes.Buffer) slog.Handler, v any) string {
		var b bytes.Buffer
		log := slog.New(handler(&b))
		log.Info("m", "direct", v, slog.Group("g", "in", v))
		log.With("with", v).Info("m")
		return b.String()
	}
	text := func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) }
	jsonLines := func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) }
	encode := func(marshal func(any) ([]byte, error), v any) string {
		b, err := marshal(v)
		if err != nil {
			t.Errorf("encoding: %v", err)
		}
		return string(b)
	}

	for _, v := range []any{secret, &secret, []Secret{secret}, map[string]Secret{"k": secret}, config, &config,
		config.Database} {
		shown := map[string]string{
			"Sprint":    fmt.Sprint(v),
			"slog text": logged(text, v),
			"slog json": logged(jsonLines, v),
			"json":      encode(json.Marshal, v),
			"yaml":      encode(yamlv3.Marshal, v),
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "% X", "%d", "%08.3f", "%t", "%c", "%U", "%e",
			"too many arguments"} {
			shown[verb] = fmt.Sprintf(verb, v)
		}
		for how, got := range shown {
			if strings.Contains(got, value) || strings.Contains(got, fmt.Sprintf("%x", value)) ||
				strings.Contains(got, fmt.Sprintf("% X", value)) {
				t.Errorf("%T by %s shows the secret: %s", v, how, got)
			}
		}
		if _, pointer := v.(*Secret); !pointer && !strings.Contains(shown["%v"], "[secret]") {
			t.Errorf("%T by %%v = %s, want [secret] in it", v, shown["%v"])
		}
	}
	if got := encode(xml.Marshal, xmlHolder{secret}); strings.Contains(got, value) {
		t.Errorf("xml shows the secret: %s", got)
	}
	for how, got := range map[string]string{
		"String": secret.String(), "GoString": secret.GoString(), "json": strings.Trim(encode(json.Marshal, secret), `"`),
		"Sprintf": fmt.Sprintf("%+v", secret), "empty": fmt.Sprint(Secret("")),
	} {
		if got != "[secret]" {
			t.Errorf("%s = %q, want [secret]", how, got)
		}
	}
}
