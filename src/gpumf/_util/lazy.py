"""Names of a package whose modules are imported when somebody asks for them, not before (PEP 562)."""

import sys
from importlib import import_module


def attach(package, names):
    """`__getattr__` and `__dir__` of a package, by its `__name__`, for what its `__init__` does not import itself.

    names : dict of modules, as they are named inside the package -> what of each is public, in words
    """
    space = vars(sys.modules[package])
    module_of = {name: module for module, public in names.items() for name in public.split()}

    def of_package(name):
        if name in names:  # written gpumf.models.sgd
            return import_module(f"{package}.{name}")
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # Found without this function from now on.
        value = space[name] = getattr(import_module(f"{package}.{module_of[name]}"), name)
        return value

    return of_package, lambda: sorted(space | names | module_of)
