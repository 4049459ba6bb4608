// Writes ../deployment.json: the shape of apps/v1 Deployment.
//
// Shapes, list keys and patch strategies come from the API server's OpenAPI document (the argument),
// what the server does with zero values from the JSON tags of k8s.io/api, static defaults from the
// table below.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type object = map[string]any

// Defaults that the server's code sets whenever the struct is there; the conditional ones are in Rust.
// Facts from pkg/apis/{apps,core}/v1/defaults.go.
var defaults = map[string]any{
	"DeploymentSpec.replicas":                         1,
	"DeploymentSpec.revisionHistoryLimit":             10,
	"DeploymentSpec.progressDeadlineSeconds":          600,
	"DeploymentStrategy.type":                         "RollingUpdate",
	"PodSpec.dnsPolicy":                               "ClusterFirst",
	"PodSpec.restartPolicy":                           "Always",
	"PodSpec.securityContext":                         object{},
	"PodSpec.terminationGracePeriodSeconds":           30,
	"PodSpec.schedulerName":                           "default-scheduler",
	"Container.terminationMessagePath":                "/dev/termination-log",
	"Container.terminationMessagePolicy":              "File",
	"EphemeralContainer.terminationMessagePath":       "/dev/termination-log",
	"EphemeralContainer.terminationMessagePolicy":     "File",
	"Probe.timeoutSeconds":                            1,
	"Probe.periodSeconds":                             10,
	"Probe.successThreshold":                          1,
	"Probe.failureThreshold":                          3,
	"HTTPGetAction.path":                              "/",
	"HTTPGetAction.scheme":                            "HTTP",
	"ObjectFieldSelector.apiVersion":                  "v1",
	"SecretVolumeSource.defaultMode":                  420,
	"ConfigMapVolumeSource.defaultMode":               420,
	"DownwardAPIVolumeSource.defaultMode":             420,
	"ProjectedVolumeSource.defaultMode":               420,
	"ServiceAccountTokenProjection.expirationSeconds": 3600,
	"HostPathVolumeSource.type":                       "",
	"PersistentVolumeClaimSpec.volumeMode":            "Filesystem",
}

// Fields with a default that depends on others: zero values are left out, and then filled in.
var conditional = []string{"Container.imagePullPolicy", "EphemeralContainer.imagePullPolicy", "ImageVolumeSource.pullPolicy"}

var (
	schemas object
	types   = map[string]object{}
)

// resolve follows a reference; the name is empty for an inline schema.
func resolve(schema object) (string, object) {
	if ref, ok := schema["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		return name, schemas[name].(object)
	}
	if all, ok := schema["allOf"].([]any); ok && len(all) == 1 {
		return resolve(all[0].(object))
	}
	return "", schema
}

func shape(schema object, goType reflect.Type) any {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	switch goType {
	case reflect.TypeFor[resource.Quantity]():
		return "quantity"
	case reflect.TypeFor[intstr.IntOrString]():
		return "intOrString"
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return "any"
	case reflect.TypeFor[metav1.FieldsV1]():
		return "deduced"
	}
	name, resolved := resolve(schema)
	switch resolved["type"] {
	case "object":
		if resolved["properties"] != nil {
			if schema["x-kubernetes-map-type"] != resolved["x-kubernetes-map-type"] && schema["x-kubernetes-map-type"] != nil {
				panic("a field overrides the map type of " + name)
			}
			short := name[strings.LastIndex(name, ".")+1:]
			visit(short, resolved, goType)
			return short
		}
		additional := shape(resolved["additionalProperties"].(object), goType.Elem())
		if resolved["x-kubernetes-map-type"] == "atomic" {
			return object{"mapAtomic": additional}
		}
		return object{"map": additional}
	case "array":
		element := shape(resolved["items"].(object), goType.Elem())
		strategy, _ := schema["x-kubernetes-patch-strategy"].(string)
		switch listType := schema["x-kubernetes-list-type"]; {
		case listType == "map":
			return object{"listMap": object{"keys": schema["x-kubernetes-list-map-keys"], "element": element}}
		case listType == "set":
			return object{"listSet": element}
		case listType == nil && strings.Contains(strategy, "merge"):
			if key, ok := schema["x-kubernetes-patch-merge-key"]; ok {
				return object{"listMap": object{"keys": []any{key}, "element": element}}
			}
			return object{"listSet": element}
		}
		return object{"listAtomic": element}
	case "integer", "number":
		return "number"
	case "boolean":
		return "boolean"
	case "string":
		if resolved["format"] == nil || resolved["format"] == "byte" {
			return "string"
		}
		return "any"
	}
	panic(fmt.Sprint("no shape for ", name, resolved))
}

// jsonFields lists the fields of a struct by their JSON name, inlined ones included.
func jsonFields(goType reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for i := range goType.NumField() {
		field := goType.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
			for name, inlined := range jsonFields(field.Type) {
				fields[name] = inlined
			}
		} else if name != "" && name != "-" {
			fields[name] = field
		}
	}
	return fields
}

func visit(name string, schema object, goType reflect.Type) {
	if _, seen := types[name]; seen {
		return
	}
	fields := object{}
	types[name] = object{"fields": fields}
	if schema["x-kubernetes-map-type"] == "atomic" {
		types[name]["atomic"] = true
	}
	goFields := jsonFields(goType)
	for fieldName, property := range schema["properties"].(object) {
		schema, goField := property.(object), goFields[fieldName]
		field := object{"is": shape(schema, goField.Type)}
		fields[fieldName] = field

		_, options, _ := strings.Cut(goField.Tag.Get("json"), ",")
		omitEmpty, omitZero := strings.Contains(options, "omitempty"), strings.Contains(options, "omitzero")
		switch kind := goField.Type.Kind(); {
		case kind == reflect.Struct && !omitZero:
			// encoding/json writes a struct whatever `omitempty` says.
			zero, err := json.Marshal(reflect.Zero(goField.Type).Interface())
			switch {
			case err != nil:
				panic(err)
			case zero[0] == '{':
				field["default"], field["zero"] = object{}, "struct"
			case string(zero) == "null":
				field["zero"] = "null"
			default:
				field["default"] = json.RawMessage(zero)
			}
		case (kind == reflect.Pointer || kind == reflect.Slice) && !omitEmpty:
			field["zero"] = "null"
		case kind != reflect.Pointer && (omitEmpty || omitZero):
			field["zero"] = "drop"
		}
		if value, ok := schema["default"]; ok {
			if encoded, _ := json.Marshal(value); string(encoded) != "{}" {
				field["default"] = value
			}
		}
		if slices.Contains(conditional, name+"."+fieldName) {
			field["zero"] = "fill"
		}
		if value, ok := defaults[name+"."+fieldName]; ok {
			field["default"] = value
			delete(defaults, name+"."+fieldName)
		}

		strategy, _ := schema["x-kubernetes-patch-strategy"].(string)
		for word := range strings.SplitSeq(strategy, ",") {
			switch word {
			case "merge", "retainKeys":
				field[word] = true
			case "":
			default:
				panic("patch strategy " + word)
			}
		}
		if key, ok := schema["x-kubernetes-patch-merge-key"]; ok {
			field["mergeKey"] = key
		}
	}
}

func main() {
	raw, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	var document object
	if err := json.Unmarshal(raw, &document); err != nil {
		panic(err)
	}
	schemas = document["components"].(object)["schemas"].(object)
	visit("Deployment", schemas["io.k8s.api.apps.v1.Deployment"].(object), reflect.TypeFor[appsv1.Deployment]())
	if len(defaults) > 0 {
		panic(fmt.Sprint("defaults of unknown fields: ", defaults))
	}

	// One field a line, so that the next version's differences can be read.
	var typeTexts []string
	for name, typ := range types {
		var lines []string
		for field, value := range typ["fields"].(object) {
			encoded, _ := json.Marshal(value)
			lines = append(lines, fmt.Sprintf("    %q: %s", field, encoded))
		}
		slices.Sort(lines)
		atomic := ""
		if typ["atomic"] == true {
			atomic = `"atomic": true, `
		}
		typeTexts = append(typeTexts, fmt.Sprintf("  %q: {%s\"fields\": {\n%s\n  }}", name, atomic, strings.Join(lines, ",\n")))
	}
	slices.Sort(typeTexts)
	fmt.Printf("{\n%s\n}\n", strings.Join(typeTexts, ",\n"))
}
