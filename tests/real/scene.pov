// A few hundred things with reflection, refraction and an isosurface; needs no include files.
#version 3.7;
global_settings { assumed_gamma 1.0 max_trace_level 6 }
camera { location <0, 4, -12> look_at <0, 1, 0> }
light_source { <10, 20, -10> rgb 1 area_light <3, 0, 0>, <0, 3, 0>, 3, 3 }
light_source { <-15, 10, -5> rgb <0.3, 0.3, 0.4> }
plane { y, -1 pigment { checker rgb 0.9, rgb <0.2, 0.3, 0.5> } finish { reflection 0.15 } }
#declare R = seed(7);
#for (I, 1, 150)
    sphere {
        <rand(R) * 12 - 6, rand(R) * 5, rand(R) * 8>, 0.2 + rand(R) * 0.3
        #if (mod(I, 4) = 0)
            pigment { rgbt <1, 1, 1, 0.8> } interior { ior 1.4 } finish { reflection 0.1 }
        #else
            pigment { marble turbulence 0.7 color_map { [0 rgb <rand(R), rand(R), 0.5>] [1 rgb 1] } }
            finish { phong 0.8 reflection 0.2 }
        #end
    }
#end
#for (I, 1, 20)
    difference {
        box { <-0.4, -0.4, -0.4>, <0.4, 0.4, 0.4> }
        cylinder { <-1, 0, 0>, <1, 0, 0>, 0.25 }
        pigment { granite scale 0.3 } normal { bumps 0.4 scale 0.1 }
        rotate <I * 20, I * 37, 0> translate <I * 0.7 - 7, 0.2, -2>
    }
#end
isosurface {
    function { x*x + y*y + z*z - 1 + 0.2*sin(8*x)*sin(8*y)*sin(8*z) }
    contained_by { sphere { 0, 1.4 } } max_gradient 6
    pigment { rgb <0.9, 0.5, 0.2> } finish { phong 1 } translate <0, 1, -3>
}
