import glob
import os
import shutil
import lit.formats

config.name = "k3"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "unit", "golden", "configs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.k3_obj_root, "test")
config.environment["FILECHECK_OPTS"] = "-enable-var-scope --allow-unused-prefixes=false"
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.k3_obj_root, "bin"), config.llvm_tools_dir, os.environ["PATH"]])
config.substitutions.append(("%mlir_lib_dir", os.path.join(config.llvm_tools_dir, "..", "lib")))
config.substitutions.append(("%models", os.path.join(config.k3_src_root, "models")))
config.substitutions.append(("%golden", os.path.join(config.k3_src_root, "test", "golden")))
config.substitutions.append(("%reference", os.path.join(config.k3_obj_root, "docs")))
# A folder with a CUDA driver that needs no GPU and knows the toy model's kernels.
config.substitutions.append(("%fake_cuda", os.path.join(config.k3_obj_root, "test", "unit", "Runtime", "fake-cuda")))
config.substitutions.append(("%unit_tests", os.path.join(config.k3_obj_root, "test", "unit", "bin")))
config.substitutions.append(("%configs", os.path.join(config.k3_src_root, "test", "configs")))


def find_ptxas():
    """Where the compiler looks for it, too (lib/Codegen/GPU/Ptxas.cpp); HOME is what tests have."""
    if "K3_PTXAS" in os.environ:
        return os.environ["K3_PTXAS"]
    candidates = [shutil.which("ptxas") or ""] + glob.glob("/usr/local/cuda*/bin/ptxas")
    roots = ["/usr/local/lib", "/usr/lib"]
    if "VIRTUAL_ENV" in os.environ:
        roots.insert(0, os.environ["VIRTUAL_ENV"] + "/lib")
    roots.append(os.path.expanduser("~/.local/lib"))
    for root in roots:
        candidates += glob.glob(root + "/python3*/*-packages/nvidia/cu*/bin/ptxas")
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


ptxas = find_ptxas()
if ptxas:
    config.available_features.add("ptxas")
    config.environment["K3_PTXAS"] = ptxas
if config.k3_sanitize:
    config.available_features.add("sanitizers")
flags = ""
if os.path.exists("/proc/cpuinfo"):
    with open("/proc/cpuinfo") as f:
        flags = f.read()
if "avx512f" in flags:
    config.available_features.add("host-avx512")
if "avx512_bf16" in flags:
    config.available_features.add("host-avx512bf16")
if " xop " not in flags:
    config.available_features.add("host-no-xop")
